"""Arrow arrays of buffers are those that `pyarrow.array` makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pocketmq.pipeline.columns import arrow_arrays


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_numbers_and_texts_are_what_pyarrow_makes_of_the_same_values(count: int) -> None:
    values = np.arange(count, dtype=np.int64) * 3
    missing = values % 2 == 0
    for kind in (np.int32, np.int64):
        whole = values.astype(kind)
        assert arrow_arrays.numbers(whole).equals(pa.array(whole))
        assert arrow_arrays.numbers(whole[::2]).equals(pa.array(whole[::2]))
        made = arrow_arrays.numbers(whole, missing=missing)
        made.validate(full=True)
        assert made.equals(pa.array(whole, mask=missing))
        assert made.null_count == missing.sum()
    words = [None if gap else f"wört {value}" for value, gap in zip(values, missing, strict=True)]
    made = arrow_arrays.texts(words)
    made.validate(full=True)
    assert made.equals(pa.array(words, pa.string()))
    data = [bytes([value % 256]) * (value % 5) for value in values.tolist()]
    assert arrow_arrays.binaries(data).equals(pa.array(data, pa.binary()))
    for word in ("", "größer", None):
        assert arrow_arrays.repeated_text(word, count).equals(pa.array([word] * count, pa.string()))
    assert arrow_arrays.repeated_number(7, count).equals(pa.array([7] * count, pa.int32()))
    assert arrow_arrays.empty(pa.binary()).equals(pa.array([], pa.binary()))
