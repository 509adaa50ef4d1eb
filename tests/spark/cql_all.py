"""`python -m tests.spark.cql_all [PART OF A NAME] [FROM]`: every statement whose rows have names, as a stream on Spark.

FROM: the name to begin with.

Says for each whether it gives what the embedded runner gives before the end of the data; known gaps with the limit.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import panes as pn
from tests.spark.test_cql import CASES, NOT_STREAMED, check_stream, tables_of

#: The clock of the program, which Spark does not ask.
_CLOCK = "Spark stamps rows of a stream, by micro-batch"


def main(part: str = "", begin_with: str = "") -> int:
    spark = pn.spark(cores=2, memory="1g")
    count = {"same": 0, "gap": 0, "OTHER": 0}
    names = list(CASES)
    for name in names[names.index(begin_with) if begin_with else 0 :]:
        case, data = CASES[name]
        if part not in name or any(isinstance(rows, list) for rows in tables_of(case, data).values()):
            continue
        known = NOT_STREAMED.get(name) or (_CLOCK if "clock" in case else None)
        begin, said = time.perf_counter(), "same"
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                check_stream(spark, Path(folder), name)
            except Exception as error:
                said = f"gap: {known}" if known else f"OTHER: {(str(error) or repr(error)).splitlines()[0][:200]}"
        count[said.partition(":")[0]] += 1
        print(f"{time.perf_counter() - begin:5.1f} s  {name}: {said}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return int(count["OTHER"] > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
