"""Where windows by time policies begin and end, by arithmetic: what tasks agree on without a word between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class TimeBorders:
    """Borders at `first + k * every`, k from 1 on; a window holds rows up to `size` before its border.

    `size` None: it holds all rows since the border before (tumbling), the first one all rows before it. Slices of time
    end at borders, and where windows begin, and are numbered along time.
    """

    first: int
    every: int
    size: int | None
    end: bool  # whether what is held at the end is a result

    @property
    def tail(self) -> int | None:
        """How long before the last row of a key the rows go back that are held at the end, if not to a border."""
        return self.size if self.end else None

    @property
    def _begin(self) -> int:
        """Where, after a border, windows begin."""
        return 0 if self.size is None else -self.size % self.every

    def slices(self, ticks: Array) -> Array:
        """The number of the slice of each tick."""
        number, rest = np.divmod(ticks - self.first, self.every)
        if self.size is None:
            return np.maximum(number, 0)
        return number if self._begin == 0 else 2 * number + (rest >= self._begin)

    def windows(
        self, slices: Array, ticks: Array, keys: Array, last: Array, starts: Array, ends: Array
    ) -> tuple[Array, Array, Array, Array]:
        """The windows that hold rows and whose border the last row of their key has reached.

        Slices are in order of keys, each with one of its ticks, and those of key k stand in [starts[k], ends[k]).
        Gives of each window its key, its border, and where its slices begin and end.
        """
        number = (ticks - self.first) // self.every
        lowest = np.maximum(number + 1, 1)
        highest = lowest if self.size is None else (ticks + self.size - self.first) // self.every
        highest = np.minimum(highest, (last[keys] - self.first) // self.every)
        counts = np.maximum(highest - lowest + 1, 0)
        slice_of = np.repeat(np.arange(len(slices)), counts)
        ks = lowest[slice_of] + np.arange(len(slice_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        pairs = np.unique(np.stack((keys[slice_of], ks)), axis=1)
        of, border = pairs[0], self.first + pairs[1] * self.every
        if self.size is None:
            low, high = np.maximum(pairs[1] - 1, 0), pairs[1]
        else:
            low, high = self.slices(border - self.size), self.slices(border)
        return of, border, _place(slices, keys, of, low, starts), _place(slices, keys, of, high, starts)


def _place(slices: Array, keys: Array, of: Array, wanted: Array, starts: Array) -> Array:
    """Where in the order of keys and slices the first slice from `wanted` on of each key stands."""
    if not len(of):
        return np.empty(0, np.int64)
    least = min(int(slices.min()), int(wanted.min()))
    width = max(int(slices.max()), int(wanted.max())) - least + 2
    if (int(keys.max()) + 1) * width < 1 << 62:
        return np.searchsorted(keys * width + (slices - least), of * width + (wanted - least))
    ends = np.append(starts[1:], len(slices))  # times too far apart to be one number with the key
    return np.array([starts[k] + np.searchsorted(slices[starts[k] : ends[k]], w) for k, w in zip(of, wanted)], np.int64)
