"""Where rows come from: one file for each kind of source, behind one protocol (`source.py`)."""
