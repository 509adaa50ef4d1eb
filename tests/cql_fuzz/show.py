"""A program as Python code that can be pasted to repeat a failure."""

from __future__ import annotations

from tests.cql_fuzz.programs import Program
from tests.cql_fuzz.run import program_text


def program_code(program: Program) -> str:
    lines = ["from datetime import datetime", "import panes.cql.session as cql", "", "data = {"]
    for name, data in program.data.items():
        lines.append(f"    {name!r}: [  # {', '.join(f'{n} {t}' for n, t in data.columns)}")
        lines += [f"        {row!r}," for row in data.rows]
        lines.append("    ],")
    lines += ["}", f"clocks = {program.clocks!r}  # statement -> times of arrival", 'text = """']
    lines += [program_text(program), '"""']
    return "\n".join(line.replace("datetime.datetime(", "datetime(") for line in lines)
