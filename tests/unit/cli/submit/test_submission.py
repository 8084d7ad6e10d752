import pytest

from tests.unit.cli.submit.options import options
from tgpu.cli.failures import Failure
from tgpu.cli.submit.option_fields import JobOptions, Submitter
from tgpu.cli.submit.submission import build_request, read_command

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
ADA = Submitter("ada", "/home/ada", {"PATH": "/bin", "HOME": "/home/ada"}, NOW_MS)


def request_of(typed: JobOptions, submitter: Submitter = ADA):
    return build_request(typed, submitter, lambda job_id: {"last": "41"}.get(job_id, job_id))[0]


def refused(typed: JobOptions) -> Failure:
    with pytest.raises(Failure) as caught:
        request_of(typed)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_job_takes_its_submitter_s_name_directory_and_environment():
    request = request_of(options(["python", "train.py"]))
    assert (request.user, request.working_dir) == ("ada", "/home/ada")
    assert request.base_environment == ADA.variables
    assert request.environment == {}


def test_the_seed_s_spelling_of_a_command_is_split_as_a_shell_would():
    assert read_command(["cmd=python 'my train.py' --lr 1"], lease=False) == [
        "python",
        "my train.py",
        "--lr",
        "1",
    ]


def test_several_words_are_never_split_again():
    assert read_command(["cmd=a b", "c d"], lease=False) == ["cmd=a b", "c d"]


@pytest.mark.parametrize("words", [[], [""], ["cmd="], ["  "]])
def test_a_missing_command_is_refused_with_the_next_step(words):
    failure = refused(options(words))
    assert "no command" in failure.message
    assert "-- python train.py" in failure.remedy
    assert "--lease" in failure.remedy


def test_an_unbalanced_quote_is_refused():
    assert "quotation" in refused(options(["cmd=python 'x"])).message.lower()


def test_a_lease_has_no_command():
    assert request_of(options([], lease=True)).command == []
    assert "--lease" in refused(options(["x"], lease=True)).message


@pytest.mark.parametrize(("gpus", "total"), [("2", 81_920), ("1", 40_960), ("0.5", 40_960)])
def test_gpu_memory_is_typed_for_each_gpu_and_sent_for_all(gpus, total):
    assert request_of(options(["x"], gpus=gpus, gpu_mem="40G")).gpu_memory_mb == total


def test_spans_sizes_and_lists_are_translated():
    request = request_of(
        options(
            ["x"],
            time="2h30m",
            mem="64G",
            retries=3,
            backoff="30s",
            array="1-100%8",
            param=["lr=0.1,0.01"],
            gpu_ids="0-2",
        )
    )
    assert (request.max_runtime, request.memory_mb) == (9000, 65_536)
    assert (request.max_retries, request.backoff_seconds) == (3, 30)
    assert request.array is not None
    assert (request.array.indexes, request.array.max_running) == ("1-100", 8)
    assert request.params == {"lr": ["0.1", "0.01"]}
    assert request.allowed_gpus == [0, 1, 2]


def test_last_is_an_id_by_the_time_it_is_sent():
    after = request_of(options(["x"], after=["3,last"], after_any=["5"])).after
    assert [(one.job_id, one.kind) for one in after] == [("3", "ok"), ("41", "ok"), ("5", "any")]


def test_no_env_sends_only_what_is_set_by_hand():
    request = request_of(options(["x"], no_env=True, env=["A=1", "HOME"]))
    assert request.base_environment == {}
    assert request.environment == {"A": "1", "HOME": "/home/ada"}


def test_variables_that_are_no_text_are_left_out_and_named():
    submitter = Submitter("ada", "/", {"GOOD": "1", "BAD": "\udcff"})
    request, left_out = build_request(options(["x"]), submitter, str)
    assert request.base_environment == {"GOOD": "1"}
    assert left_out == ["'BAD'"]


def test_a_command_that_is_no_text_is_refused():
    assert "UTF-8" in refused(options(["echo", "\udcff"])).message


@pytest.mark.parametrize(
    ("typed", "option"),
    [
        (options(["x"], time="30"), "--time"),
        (options(["x"], mem="1"), "--mem"),
        (options(["x"], gpus="many"), "--gpus"),
        (options(["x"], retries=-1), "--retries"),
        (options(["x"], backoff="5"), "--backoff"),
        (options(["x"], array="x"), "--array"),
        (options(["x"], param=["x"]), "--param"),
        (options(["x"], gpu_ids="x"), "--gpu-ids"),
        (options(["x"], env=["="]), "--env"),
        (options(["x"], cpus=-1), "--cpus"),
        (options(["x"], workers=0), "--workers"),
        (options(["x"], gpu_type=","), "--type"),
        (options(["x"], gpu_size="80"), "--gpu-size"),
        (options(["x"], not_gpu_ids="x"), "--not-gpu-ids"),
        (options(["x"], label=["rack"]), "--label"),
        (options(["x"], label=["rack=1", "rack=2"]), "--label"),
        (options(["x"], deadline="soon"), "--deadline"),
        (options(["x"], deadline="2001-01-01 09:00"), "--deadline"),
    ],
)
def test_bad_input_names_the_option(typed, option):
    assert refused(typed).message.startswith(f"{option}: ")


def test_a_mix_of_whole_gpus_and_a_share_needs_gpus_large_enough_for_the_share():
    request = request_of(options(["x"], gpus="1.5", gpu_mem="20G"))
    assert (request.gpu_memory_mb, request.gpu_memory_each_mb) == (40_960, 40_960)
    assert request_of(options(["x"], gpus="2", gpu_mem="20G")).gpu_memory_each_mb == 0


def test_the_size_of_a_gpu_is_no_memory_that_the_job_gets():
    request = request_of(options(["x"], gpu_size="80G"))
    assert (request.gpu_memory_mb, request.gpu_memory_each_mb) == (0, 81_920)


def test_several_types_keep_their_order_and_one_is_the_type():
    assert request_of(options(["x"], gpu_type="H100, A100")).gpu_types == ["H100", "A100"]
    one = request_of(options(["x"], gpu_type="A100"))
    assert (one.gpu_type, one.gpu_types) == ("A100", [])


def test_where_it_may_run_is_sent():
    request = request_of(
        options(
            ["x"],
            workers=4,
            not_gpu_ids="0-1",
            node=["a,b", "c"],
            not_node=["d"],
            label=["rack=r1", "zone="],
            exclusive=True,
            same_island=True,
            spread=True,
            reservation="r7",
        )
    )
    assert (request.workers, request.excluded_gpus) == (4, [0, 1])
    assert (request.nodes, request.excluded_nodes) == (["a", "b", "c"], ["d"])
    assert request.labels == {"rack": "r1", "zone": ""}
    assert (request.exclusive, request.same_island, request.spread) == (True, True, True)
    assert request.reservation == "r7"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("+2h", "2023-11-15T00:13:20+00:00"),
        ("2030-01-31T09:00Z", "2030-01-31T09:00:00+00:00"),
    ],
)
def test_a_deadline_is_sent_as_an_instant(text, instant):
    assert request_of(options(["x"], deadline=text)).deadline == instant


def test_whether_it_is_preemptible_is_sent():
    request = request_of(options(["x"], no_preempt=True, checkpoint_signal="USR1"))
    assert (request.preemptible, request.checkpoint_signal) == (False, "USR1")


def test_without_a_priority_the_tenant_s_tier_decides():
    assert request_of(options(["x"])).priority is None
    assert request_of(options(["x"], priority=7)).priority == 7


@pytest.mark.parametrize(
    ("text", "limit"), [(None, None), ("100MB", 100), ("2G", 2048), ("none", 0), ("0", 0)]
)
def test_a_log_limit_is_a_size(text, limit):
    assert request_of(options(["t"], log_limit=text)).log_limit_mb == limit


def test_a_log_limit_without_a_unit_is_refused():
    assert "has no unit" in refused(options(["t"], log_limit="100")).message


def test_an_id_that_can_be_none_is_refused_by_its_option():
    assert refused(options(["x"], after=["7" * 300])).message.startswith("--after: ")
