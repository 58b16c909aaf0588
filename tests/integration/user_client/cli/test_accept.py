"""`odc terms accept`: what a person is asked, and what a script is not."""

from __future__ import annotations

import pytest

from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc


def test_a_person_is_asked_before_terms_are_signed_and_a_script_is_not(odc: Odc) -> None:
    odc.consortium.until_joined().publish()

    def signed() -> bool:
        return all(
            member["accepted"]
            for member in odc.consortium.hospital_round.status()["members"]
            if member["party"] == HOSPITAL
        )

    refused = odc.at_terminal("terms", "accept", typed="n")
    assert f"Sign these terms for {HOSPITAL}?" in refused.err
    assert (refused.code != 0, "nothing was signed" in refused.err, signed()) == (True, True, False)
    assert odc.at_terminal("terms", "accept", "--yes").code == 0
    assert signed()
    assert odc("terms", "accept", home=LEAD).code == 0  # nobody can be asked


@pytest.mark.parametrize(("typed", "signs"), [("y\ny", True), ("n", False), ("y\nn", False)])
def test_a_model_that_reveals_rows_is_consented_to_where_the_terms_are_signed(
    odc: Odc, typed: str, signs: bool
) -> None:
    odc.consortium.until_joined().publish(model={"kind": "knn"})
    asked = odc.at_terminal("terms", "accept", typed=typed)
    assert "The model (knn) lets members map rows of others back. Consent to that?" in asked.err
    assert (asked.code == 0) == signs
