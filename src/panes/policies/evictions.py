"""Evictions at work on rows that triggers have looked at (triggers.py): which windows there are, over whole batches.

Each rule is written once, over plain arrays, and runs as it is or compiled (loop.py). A level (one key, or the centre)
is a table of lines (program.py) and a row of state words; rows are numbered in an arena, where `follows` leads to the
next row of the key. `run_all` is the order of things (SPEC P-43): timer ticks, results, evictions, the row itself, and
what the centre says to all keys. `run_alone` is what it comes to for one eviction that timer ticks don't ask.
"""

from __future__ import annotations

import numpy as np

from panes.policies.loop import one_source
from panes.policies.program import (
    CHILDREN,
    COLUMN,
    COSINE_,
    COUNT,
    FLOATS,
    HEAD,
    KIND,
    OPTION,
    PUNCT,
    SEEN,
    TAIL,
    TAIL_AT,
    TIME,
    TUMBLE,
    WORD,
    A,
    B,
)
from panes.policies.rules import MAX, MIN, count_leaves, distance, is_beyond, joined
from panes.policies.specs import MOST

Array = np.ndarray
# what evictions are told of: a row, a timer tick with a time, or a row of another key as a timer tick
ROW, FAKE, ROW_AS_FAKE = 0, 1, 2
# words of `meta`: windows found, row that brought too many timer ticks (-1: none), timer ticks and what they gave
FOUND, WRONG, SENT = 0, 1, 2


def ask(
    lines: Array, limits: Array, states: Array, k: int, head: int, tail: int, ticks: Array, cols: Array,
    follows: Array, chained: bool, j: int, what: int, now: int, triggered: bool, stack: Array, asked: Array,
) -> int:  # fmt: skip
    """Tell all evictions of row j (or the active ones of a timer tick at `now`); how many rows leave.

    `chained`: the row after one is found by `follows`, and is not just the next.
    """
    top, size = 0, tail - head
    for t in range(1 if len(lines) == 2 else len(lines)):  # what one says need not be combined
        kind, word = lines[t, KIND], lines[t, WORD]
        answer, is_asked = 0, 1
        if kind >= MAX:
            top -= lines[t, CHILDREN]
            if kind == MIN:
                answer = MOST
            for c in range(top, top + lines[t, CHILDREN]):
                if asked[c] == 1:
                    answer = joined(kind, answer, stack[c])
        elif what != ROW and (lines[t, OPTION] == 0 or (what == FAKE and kind == TUMBLE)):
            is_asked = 0
        elif kind == COUNT:
            answer, states[k, word] = count_leaves(
                states[k, word], size, lines[t, A], lines[t, B], lines[t, FLOATS] == 1
            )
        elif kind == TUMBLE:
            if triggered:
                answer = size
        elif kind == PUNCT:
            if what != FAKE and cols[lines[t, COLUMN], j] == 1.0:  # a time alone matches nothing
                answer = size
        else:
            # an own queue of rows: position and place of its first one; rows that others removed leave it first
            at, place, column = states[k, word], states[k, word + 1], lines[t, COLUMN]
            while at < head:
                at += 1
                if at < tail:
                    place = follows[place] if chained else place + 1
            if kind == TIME:
                moment = now if what == FAKE else ticks[column, j]
                while at < tail and is_beyond(moment, ticks[column, place], lines[t, A]):
                    answer += 1
                    at += 1
                    if at < tail:
                        place = follows[place] if chained else place + 1
            elif what != FAKE:
                by_angle, n = kind == COSINE_, lines[t, A]
                while at < tail and distance(by_angle, n, cols, column, place, cols, column, j) > limits[t]:
                    answer += 1
                    at += 1
                    if at < tail:
                        place = follows[place] if chained else place + 1
            if at == tail and what == ROW:
                place = j
            states[k, word], states[k, word + 1] = at, place
        stack[top], asked[top] = answer, is_asked
        top += 1
    return stack[0]


def emit(out: Array, meta: Array, slot: int, lo: int, hi: int, end: int) -> None:
    """Note a window of rows lo..hi-1, unless it is empty."""
    if hi > lo:
        n = meta[FOUND]
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = slot, lo, hi, end
        meta[FOUND] = n + 1


def next_run(rows: Array, firsts: Array, counts: Array, r: int, i: int) -> int:
    """Of the runs from r on that are before row i, the one with the earliest timer tick that is left; -1: none is.

    Triggers thus take turns by time (SPEC K-10), and no run is ever written out.
    """
    best = -1
    while r < len(rows) and rows[r] == i:
        if counts[r] > 0 and (best < 0 or firsts[r] < firsts[best]):
            best = r
        r += 1
    return best


def _let_go(states: Array, centre: Array, slots: Array, positions: Array, n: int) -> None:
    """The centre lets its n oldest rows go: each leaves its key, unless it has left before."""
    n = min(n, centre[0, TAIL] - centre[0, HEAD])
    for _ in range(n):
        place = centre[0, TAIL_AT]
        k = slots[place]
        if states[k, HEAD] <= positions[place]:
            states[k, HEAD] = positions[place] + 1
        centre[0, TAIL_AT] = place + 1
    centre[0, HEAD] += n


def _is_asked(lines: Array) -> bool:
    """Whether any eviction is asked about timer ticks; the smallest of several is, though none of these be."""
    asked = 0
    for t in range(len(lines)):
        asked += lines[t, OPTION] or lines[t, KIND] == MIN
    return asked > 0


def _may_let_go(lines: Array, stack: Array, asked: Array) -> bool:
    """Whether a timer tick with a time may let a row go, before its result or after it; else each gives what is held.

    Deltas and punctuations compare rows, and a time is none. The smallest of several, none of which is asked, is as
    many rows as there are.
    """
    top = 0
    for t in range(len(lines)):
        kind, may, is_asked = lines[t, KIND], 0, 1
        if kind >= MAX:
            top -= lines[t, CHILDREN]
            may = 1 if kind == MIN else 0
            for c in range(top, top + lines[t, CHILDREN]):
                if asked[c] == 1:
                    may = min(may, stack[c]) if kind == MIN else max(may, stack[c])
        elif lines[t, OPTION] == 0 or kind == TUMBLE:
            is_asked = 0
        elif kind in (COUNT, TIME):
            may = 1
        stack[top], asked[top] = may, is_asked
        top += 1
    return stack[0] + lines[-1, OPTION] > 0


def _tell_all(
    lines: Array, limits: Array, states: Array, ticks: Array, cols: Array, follows: Array, k: int, j: int,
    what: int, now: int, end: int, out: Array, meta: Array, stack: Array, asked: Array,
) -> None:  # fmt: skip
    """A timer tick for every key (evict, then emit), or a row of key k for all others (emit, then evict)."""
    asks = _is_asked(lines)
    for other in range(len(states)):
        if states[other, SEEN] == 0 or (what == ROW_AS_FAKE and other == k):
            continue
        if what == ROW_AS_FAKE:
            emit(out, meta, other, states[other, HEAD], states[other, TAIL], end)
        if asks:
            n = ask(
                lines, limits, states, other, states[other, HEAD], states[other, TAIL], ticks, cols, follows, True, j,
                what, now, True, stack, asked,
            )  # fmt: skip
            states[other, HEAD] = min(states[other, HEAD] + n, states[other, TAIL])
        if what == FAKE:
            emit(out, meta, other, states[other, HEAD], states[other, TAIL], end)
            if lines[-1, OPTION] == 1:
                states[other, HEAD] = states[other, TAIL]


def _none_held(states: Array) -> bool:
    held = 0
    for k in range(len(states)):
        held += states[k, SEEN] * (states[k, TAIL] - states[k, HEAD])
    return held == 0


@one_source(
    count_leaves, joined, is_beyond, distance, emit, next_run, _let_go, _is_asked, _may_let_go, _tell_all,
    _none_held, inlined=(ask,),
)  # fmt: skip
def run_all(
    lines: Array, limits: Array, keeps: bool, with_rows: bool, states: Array, keys: Array, offsets: Array, base: int,
    ticks: Array, cols: Array, follows: Array,
    fired: Array, f_row: Array, f_first: Array, f_step: Array, f_count: Array, f_timed: Array,
    c_lines: Array, c_limits: Array, centre: Array, by_clock: bool, slots: Array, positions: Array,
    c_fired: Array, c_row: Array, c_first: Array, c_step: Array, c_count: Array, c_timed: Array,
    begin: int, out: Array, meta: Array, most: int, stack: Array, asked: Array,
) -> int:  # fmt: skip
    """Rows base..base+n-1, those of slot keys[g] from offsets[g] on. Without `with_rows` only timer ticks come.

    Row `begin` is the first to look at, and the one returned the next: it is no row if there was room for all windows.

    `c_...` are the policies of the centre and what its triggers said, `f_...` the timer ticks of keys; both come by
    time, unless central ones go `by_clock`, which waits for no row. Evictions of one line are none at all. Where there
    is a centre, rows are in the order in which they came, each with a line of `keys`; else `centre` is empty. Fake
    items give no more than about `most` windows: meta[WRONG] is then the row before which they were sent.
    """
    c, f, sent, ticking = 0, 0, meta[SENT], len(f_row) + len(c_row) > 0
    while f < len(f_row) and f_row[f] < begin:
        f += 1
    while c < len(c_row) and c_row[c] < begin:
        c += 1
    own, grouped, central = len(lines) > 1, len(centre) > 0, len(c_lines) > 1
    clears, c_clears = lines[-1, OPTION] == 1, c_lines[-1, OPTION] == 1
    stays = ticking and not (_may_let_go(lines, stack, asked) or _may_let_go(c_lines, stack, asked))
    room = len(out) - (len(states) + 1 if grouped else 1)
    for g in range(len(keys)):
        k = keys[g]
        if with_rows:
            states[k, SEEN] = 1
        head, tail = states[k, HEAD], states[k, TAIL]
        for i in range(max(begin, offsets[g]), offsets[g + 1]):
            j, end = 0, 0
            if with_rows:
                j = base + i
                end = ticks[0, j]
            is_row = False
            while not is_row:
                if meta[FOUND] > room:
                    states[k, HEAD], states[k, TAIL], meta[SENT] = head, tail, sent
                    return i
                mine, at = -1, -1
                if ticking:
                    if f < len(f_row) and f_row[f] == i and head < tail:
                        mine = next_run(f_row, f_first, f_count, f, i)
                    if c < len(c_row) and c_row[c] == i:
                        at = next_run(c_row, c_first, c_count, c, i)
                        if mine < 0 and at >= 0 and _none_held(states):
                            at = -1
                if mine < 0 and at < 0:
                    is_row = True
                    while f < len(f_row) and f_row[f] == i:
                        f += 1
                    while c < len(c_row) and c_row[c] == i:
                        c += 1
                    if not with_rows:
                        break
                elif stays and sent + (c_count[at] if mine < 0 else f_count[mine]) > most:
                    meta[WRONG] = j
                    return i
                before, now, triggered = meta[FOUND], 0, True
                if at >= 0 and (mine < 0 or by_clock or c_first[at] <= f_first[mine]):
                    now = c_first[at]
                    c_first[at] += c_step[at]
                    c_count[at] -= 1
                    if central:
                        _let_go(states, centre, slots, positions, ask(
                            c_lines, c_limits, centre, 0, centre[0, HEAD], centre[0, TAIL], ticks, cols, follows,
                            False, j, FAKE, now, True, stack, asked,
                        ))  # fmt: skip
                    _tell_all(
                        lines, limits, states, ticks, cols, follows, k, j, FAKE, now, now if c_timed[at] else end, out,
                        meta, stack, asked,
                    )  # fmt: skip
                    if c_clears:
                        _let_go(states, centre, slots, positions, centre[0, TAIL] - centre[0, HEAD])
                    head = states[k, HEAD]
                else:
                    if is_row:
                        triggered = fired[i] or (grouped and c_fired[i])
                        if triggered:
                            emit(out, meta, k, head, tail, end)
                    else:
                        now = f_first[mine]
                        f_first[mine] += f_step[mine]
                        f_count[mine] -= 1
                    if own:
                        n = ask(
                            lines, limits, states, k, head, tail, ticks, cols, follows, True, j,
                            ROW if is_row else FAKE, now, triggered, stack, asked,
                        )  # fmt: skip
                        head = min(head + n, tail)
                    if not is_row:
                        emit(out, meta, k, head, tail, now if f_timed[mine] else end)
                        if clears:
                            head = tail
                if not is_row:
                    states[k, HEAD] = head
                    sent += max(1, meta[FOUND] - before)
                    if sent > most:
                        meta[WRONG] = j
                        return i
            if not with_rows:
                continue
            tail += 1
            if keeps:
                if states[k, TAIL_AT] >= 0:
                    follows[states[k, TAIL_AT]] = j
                states[k, TAIL_AT] = j
            if grouped:
                states[k, HEAD], states[k, TAIL] = head, tail
                if c_fired[i]:
                    _tell_all(
                        lines, limits, states, ticks, cols, follows, k, j, ROW_AS_FAKE, 0, end, out, meta, stack, asked
                    )
                if central:
                    n = ask(
                        c_lines, c_limits, centre, 0, centre[0, HEAD], centre[0, TAIL], ticks, cols, follows, False, j,
                        ROW, 0, c_fired[i], stack, asked,
                    )  # fmt: skip
                    _let_go(states, centre, slots, positions, n)
                    if centre[0, HEAD] == centre[0, TAIL]:
                        centre[0, TAIL_AT] = j
                    centre[0, TAIL] += 1
                head = states[k, HEAD]
        if not grouped:
            states[k, HEAD], states[k, TAIL] = head, tail
    return offsets[-1]


@one_source(is_beyond, distance)
def run_alone(
    kind: int, size: int, limit: float, column: int, word: int, states: Array, slots: Array, offsets: Array, base: int,
    ticks: Array, cols: Array, follows: Array, due: Array, ends: Array, clears: Array, out: Array,
) -> int:  # fmt: skip
    """`run_all` where an eviction is alone (program.py), which the tests hold it to; how many windows there are.

    A result is `due` before these rows, each with its end, and whether a tumbling window is emptied then. Rows between
    them only come in: a count is looked up, and a time, which does not go back, is asked for the last of them only.
    """
    found, d = 0, 0
    of_time, queues = kind == TIME, kind != COUNT and kind != TUMBLE
    for g in range(len(slots)):
        k, i, stop = slots[g], offsets[g], offsets[g + 1]
        head, tail, place = states[k, HEAD], states[k, TAIL], 0
        if queues:
            place = base + i if head == tail else states[k, word + 1]
        while True:
            until = stop
            if d < len(due) and due[d] < stop:
                until = due[d]
            if queues:
                for j in range(base + (max(i, until - 1) if of_time and column == 0 else i), base + until):
                    newest = tail + j - base - i
                    while head < newest and (
                        is_beyond(ticks[column, j], ticks[column, place], size)
                        if of_time
                        else distance(kind == COSINE_, size, cols, column, place, cols, column, j) > limit
                    ):
                        head += 1
                        place = follows[place] if head < newest else j
            tail += until - i
            i = until
            if kind == COUNT:
                head = max(head, tail - size)
            if until == stop:
                break
            if head < tail:
                out[found, 0], out[found, 1], out[found, 2], out[found, 3] = k, head, tail, ends[d]
                found += 1
            if kind == TUMBLE and clears[d]:
                head = tail
            d += 1
        states[k, HEAD], states[k, TAIL] = head, tail
        if queues:
            states[k, word], states[k, word + 1] = head, place
    return found
