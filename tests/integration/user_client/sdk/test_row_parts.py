"""Parts of a prediction: what is said of the rows and columns that they are made of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.harness.halves import of_hospital, of_lead, part, people, released
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.errors import FieldError
from user_client.sdk.parts import JoinedPredictor


def test_a_field_that_does_not_fit_is_named_by_its_row_in_the_whole_table(
    consortium: Consortium, tmp_path: Path
) -> None:
    members, fresh = released(consortium), people(9, 30)
    file = part(members[HOSPITAL], of_hospital(fresh.slice(10)), tmp_path / "part")
    values = fresh["x0"].to_pylist()
    values[25] = 50.0  # of the 16th row that is in the part
    own = of_lead(fresh).set_column(1, "x0", pa.array(values))
    joined = JoinedPredictor(members[LEAD].directory, [file])
    with pytest.raises(FieldError, match="column 'x0', row 26: expected a number"):
        list(joined.predict_parts([own]))
