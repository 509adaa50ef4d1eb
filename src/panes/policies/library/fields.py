"""The numbers by which arrays of a columnar window are read: columns of lines, and codes of policies and events."""

from __future__ import annotations

#: No row, no slot.
NEVER = -1
#: No moment: earlier than all times, which may be negative.
NO_TIME = -(2**63)

# Fields of a subwindow. Tuples are numbered per slot: those held are S_FIRST .. S_FIRST + S_SIZE - 1.
S_ALIVE, S_SIZE, S_HEAD, S_LAST, S_FIRST, S_COUNTER, S_FULL, S_HAS_BASE = range(8)
S_CREATED, S_UPDATED, S_UPDATES, S_UPDATED_AT, S_EVICT_DUE, S_TRIGGER_DUE, S_PERIOD = range(8, 15)
S_BEFORE, S_AFTER = 15, 16  # neighbours in the order in which partitions go
# What the events of this push refer to: from a row, numbers from .. to, and where they lie among those of all slots.
S_VIEW_ROW, S_VIEW_FROM, S_VIEW_TO, S_VIEW_AT = range(17, 21)
S_ROW = 21  # the latest row of this push, while it is looked at
S_FIELDS = 22
# Fields of a tuple.
R_NEXT, R_TIME = 0, 1
R_FIELDS = 2
# What belongs to the window as a whole.
G_UPDATES, G_TUPLES, G_LIVE, G_DUE, G_RAREST, G_FIRST, G_LAST, G_NOW, G_OUT, G_FIRED, G_BAD = range(11)
G_FIELDS = 11
# The configuration.
C_EVICT, C_SIZE, C_TRIGGER, C_EVERY, C_DISCARD, C_LIMIT, C_MOST, C_SELECT, C_TUMBLING, C_WATCH, C_ROOM = range(11)
COUNT, DELTA, TIME, PUNCT = range(4)
NO_LIMIT, PARTITIONS, TUPLES, AGE = range(4)
LRU, LFU, OLDEST = range(3)
FLUSH, EVICT, INSERT, TRIGGER = range(4)
DUE_EVICT, DUE_TRIGGER, DUE_FORGET = range(3)
# Events: kind, slot, row, moment, full, first tuple, end.
E_KIND, E_SLOT, E_ROW, E_AT, E_FULL, E_FROM, E_TO = range(7)
E_FIELDS = 7
FIRED, FILLED, DROPPED = range(3)

#: Fields of a subwindow that a snapshot holds; the others are made anew. Columns of it are called so.
SAVED = {
    "alive": S_ALIVE,
    "size": S_SIZE,
    "counter": S_COUNTER,
    "full": S_FULL,
    "has_base": S_HAS_BASE,
    "created": S_CREATED,
    "updated": S_UPDATED,
    "updates": S_UPDATES,
    "updated_at": S_UPDATED_AT,
    "evict_due": S_EVICT_DUE,
    "trigger_due": S_TRIGGER_DUE,
    "period": S_PERIOD,
}
