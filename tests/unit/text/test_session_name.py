"""Names of sessions, and the way back to their jobs."""

import pytest

from tgpu.text.session_name import job_of, session_name


@pytest.mark.parametrize(
    ("gpus", "command", "name"),
    [
        ("0", "python x.py --mode test", "gpujob_0_test_7"),
        ("0,1", "python x.py --mode=train", "gpujob_0,1_train_7"),
        ("2", "python x.py", "gpujob_2_run_7"),
        ("2", "python x.py --mode", "gpujob_2_run_7"),
        ("", "true", "gpujob_none_run_7"),
        ("3", "x --mode ../a_b;c", "gpujob_3_..-a-b-c_7"),
        ("3", f"x --mode {'m' * 50}", f"gpujob_3_{'m' * 12}_7"),
        (",".join(map(str, range(16))), "x", "gpujob_16gpus_run_7"),
    ],
)
def test_a_name_says_gpus_mode_and_job(gpus, command, name):
    assert session_name(gpus, command.split(), "7") == name
    assert job_of(name) == "7"


def test_a_job_whose_id_has_dashes_and_lines_is_found_again():
    assert job_of(session_name("0", ["x"], "my_run-1.2_b")) == "my_run-1.2_b"


@pytest.mark.parametrize("name", ["gpujob", "gpujob_0", "gpujob_0_test", "other_0_test_7", ""])
def test_a_session_of_somebody_else_has_no_job(name):
    assert job_of(name) is None
