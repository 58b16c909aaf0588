from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from runtime.start_up import loading

SETTING = "PYDANTIC_DISABLE_PLUGINS"
PROGRAM = """
import gc
from runtime.start_up import loading
with loading():
    import pydantic
    assert not gc.isenabled()
assert gc.isenabled()
import os
print(os.environ["PYDANTIC_DISABLE_PLUGINS"])
"""


@pytest.mark.parametrize(("given", "found"), [({}, "__all__"), ({SETTING: "mine"}, "mine")])
def test_no_plug_in_sees_our_messages_unless_the_environment_asks_for_it(
    given: dict[str, str], found: str
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != SETTING}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == found


def test_garbage_is_collected_again_after_an_import_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "__all__")
    with pytest.raises(ModuleNotFoundError), loading():
        raise ModuleNotFoundError
    assert gc.isenabled()
    gc.unfreeze()
