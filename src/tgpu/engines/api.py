"""The interface of engines: start, observe and stop attempts.

An attempt is one try at running a job, named by job id, attempt number and the job's identity.
Numbers are never used twice: whatever happens to attempt 3, the next try is attempt 4. That is what
makes a launch idempotent and "runs twice" impossible. The identity is random: what an engine still
knows of a job of the same id, from another database or from one before a restore, is never taken
for this one's.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from tgpu.core.model.cause import Evidence, Fault
from tgpu.core.model.job import Request
from tgpu.core.model.node import Node, Part, Placement
from tgpu.engines.log_piece import Piece


class AttemptKey(NamedTuple):
    job_id: str
    attempt: int
    identity: str = ""  # of the job; "" where it was submitted before jobs had one


class RunAs(NamedTuple):
    """The local user an attempt runs as. A `gid` of None: there is no such user."""

    uid: int
    gid: int | None
    groups: tuple[int, ...]


class PreemptionNotice(NamedTuple):
    """What a preempted attempt gets before TERM, so that it can save what it has done."""

    signal: int  # to its first process; in a gang, to that of each worker
    wait_ms: int  # from the signal until TERM


class AttemptLimits(NamedTuple):
    """What each process of an attempt may use; None does not limit."""

    memory_bytes: int | None = None
    cpu_seconds: int | None = None
    open_files: int | None = None


NO_LIMITS = AttemptLimits()


class Fence(NamedTuple):
    """Which devices an attempt cannot open: those of `shut` that are not `opened`, by numbers."""

    opened: tuple[tuple[int, int], ...]  # major, minor
    shut: tuple[tuple[int, int, int], ...]  # major, first and last minor
    required: bool = False  # without it the attempt must not start


NO_REQUEST: Final = Request(0)


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start one attempt; the engine asks nobody else."""

    key: AttemptKey
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]  # all but what its place says: see `placing.placed`
    time_limit_ms: int | None = None
    grace_ms: int = 10_000  # between TERM and KILL
    user: RunAs | None = None  # None: whoever runs the engine
    # A gang runs the command once for each of these, by rank: variables that only that worker has.
    # Made when the place is known, by `placing.placed`.
    workers: tuple[Mapping[str, str], ...] = ()
    limits: AttemptLimits = NO_LIMITS
    session: str = ""  # the name of the session it runs in; nothing for none
    multiplexer: str = "screen"  # what shows that session: "screen" or "tmux"
    # What it runs in, ("conda" | "venv" | "uv", name or path), and the folders its script must lie
    # in, if any. Looked up when it starts, as its user, whose home this is.
    environment: tuple[str, str] | None = None
    script_folders: tuple[str, ...] = ()
    home: str = "/"
    # Of each of its two logs: beginning and end are kept, the middle is taken out. None: no limit.
    log_limit_bytes: int | None = None
    fence: Fence | None = None  # None: it may open whatever its user may
    request: Request = NO_REQUEST  # what it asked for, for an engine that binds by itself
    compute_millis: int | None = None  # its part of a GPU's compute, where that is another one
    placement: Placement | None = None  # None: the engine chooses
    nodes: tuple[Node, ...] = ()  # those of its placement, with what is known of their GPUs
    image: str = ""  # the container image it runs in; "" for none
    tenant: str = ""
    account: str = ""  # whom it runs as, by name; "": whoever runs the engine
    secrets: tuple[str, ...] = ()  # values of its environment that no record may have


class Phase(StrEnum):
    TAKEN = "taken"  # the engine has it and has not started it; `cause` says what it waits for
    RUNNING = "running"  # the command was started
    # Its node or its keeper is silent: nothing is known, and nothing is over. Its GPUs stay taken.
    UNREACHABLE = "unreachable"
    EXITED = "exited"  # it is over and nothing of it is left on the machine
    NOT_STARTED = "not_started"  # it never ran and never will; `cause` says why
    LOST = "lost"  # it ran, it is gone, and nobody saw how it ended; `cause` says why


OVER: Final = frozenset({Phase.EXITED, Phase.NOT_STARTED, Phase.LOST})


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt is, as the engine says."""

    parts: tuple[Part, ...] = ()  # by rank; without shares where the engine does not know its GPUs
    engine_id: str = ""  # what the engine itself calls it, for people: "slurm job 4711"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Each once, in the order of the ranks."""
        return tuple(dict.fromkeys(part.node_id for part in self.parts))

    def as_placement(self, gpu_type: str) -> Placement | None:
        """As our own books would have it; None where the engine does not know the nodes."""
        if not self.parts:
            return None
        first, *others = self.parts
        return Placement(first.node_id, gpu_type, first.shares, tuple(others))


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """What the attempt's processes used, as the kernel counted it."""

    user_cpu_ms: int = 0
    system_cpu_ms: int = 0
    max_rss_kib: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """What the engine knows of one attempt. Later observations replace earlier ones."""

    key: AttemptKey
    phase: Phase
    # When it was taken, was started or ended, or since when it is silent; by `Engine.now`: ms since
    # the epoch, unless that was set.
    at: int
    pid: int | None = None
    exit_code: int | None = None  # as a shell shows it: 0-255, 128+n for signal n
    signal: int | None = None
    # Why it ended other than by itself: "time_limit", "stopped"; or a sentence for NOT_STARTED
    # and LOST ("the machine was rebooted", "no such directory: /x"), for TAKEN ("the image is
    # being pulled") and for UNREACHABLE ("node a does not answer").
    cause: str | None = None
    retry: bool = True  # of NOT_STARTED: trying again may help (a missing directory stays missing)
    usage: ProcessUsage = field(default_factory=ProcessUsage)
    # When its command was started, also once it is over; None where it never was or is not known.
    started_at: int | None = None
    place: Place | None = None  # None: where it was told to be, or not known yet
    fault: Fault | None = None  # of an end: whose doing it was, where the engine itself knows

    @property
    def is_over(self) -> bool:
        return self.phase in OVER

    @property
    def known_as(self) -> str:
        """For people, in brackets behind its name: its process, or what its engine calls it."""
        if self.pid is not None:
            return f" (process {self.pid})"
        name = "" if self.place is None else self.place.engine_id
        return f" ({name})" if name else ""


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """One start of an attempt, as an engine has it on record. For whoever checks a history."""

    key: AttemptKey
    started_at: int
    ended_at: int | None = None
    is_alive: bool = False  # it runs now; neither this nor an end: nobody saw how it ended
    place: Place | None = None  # None: where it was told to be


@dataclass(frozen=True, slots=True)
class Pairing:
    """An engine's own name, and what it knows of the database it is used with."""

    engine: str  # random
    database: str = ""  # the name of the database; "" where it has not been used with any
    is_durable: bool = False  # that one outlives its service
    machine: str = ""  # on which the two were made partners; "" where it has no name
    place: str = ""  # for people: its directory
    seq: int = 0  # of the database's journal, when the last attempt was launched
    number: int = 0  # of the newest job then
    is_new: bool = True  # it has no name on record yet
    this_machine: str = ""  # as `machine`, now


class Binding(StrEnum):
    """Who chooses where an attempt runs."""

    EXACT = "exact"  # we do: it runs on the node and on the very GPUs of its placement
    NODE = "node"  # we choose the node, the engine picks GPUs on it
    ENGINE = "engine"  # the engine does: a launch has no placement, an observation says the place


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What some engines can do and others cannot. Asked for, never guessed by an engine's name."""

    binding: Binding = Binding.EXACT
    images: bool = False  # runs a command inside the container image that its job names
    local_processes: bool = False  # what it runs are processes of this machine
    # It drops what is over by itself, after a while: that it does not know an attempt proves
    # nothing. Being told to stop it, it proves that it does not run and never will.
    forgets: bool = False


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node as an engine has it that keeps books of its own."""

    node: Node  # its GPUs may be numbered by us, where the engine only counts them
    held_by_others: int = 0  # how many of its GPUs others than us have; which, nobody may know


@dataclass(frozen=True, slots=True)
class EngineCapacity:
    nodes: tuple[NodeCapacity, ...]
    at: int  # when it was so, by `Engine.now`: what an engine tells may be old


class EngineUnavailable(Exception):
    """The engine cannot be reached now. Nothing is known about what it runs; try again."""


class Overtaken(EngineUnavailable):
    """A service that came later has the engine: this one may start and stop nothing any more."""

    def __init__(self, epoch: int, seen: int) -> None:
        super().__init__(
            f"another service has taken this engine over (epoch {seen}, and this one is {epoch}); "
            "nothing is started or stopped from here any more: end this service"
        )
        self.epoch = epoch
        self.seen = seen


class NoLog(Exception):
    """This engine keeps no logs."""


class LogUnreadable(Exception):
    """A log is there and cannot be read; the sentence says why."""

    def __init__(self, name: str, problem: str, *, is_for_now: bool = False) -> None:
        super().__init__(problem)
        self.name = name  # what the engine calls this log
        self.is_for_now = is_for_now  # another try may fare better


class JobMark(NamedTuple):
    """What the environment of a process says of the job it belongs to."""

    key: AttemptKey
    log_dir: str


class Traced(NamedTuple):
    """Of a process of this machine: where it comes from, as far as the engine can tell."""

    is_ours: bool = False  # the engine has started it, or an ancestor of it
    key: AttemptKey | None = None  # for which attempt, where that shows
    # Of which attempts it may be, by what can be forged: it may take rights away, and gives none.
    claimed: tuple[AttemptKey, ...] = ()
    pids: tuple[int, ...] = ()  # the process first, then its ancestors
    # Nothing is hidden: it lives, its ancestors are known to the first, its variables can be read.
    is_whole: bool = False


class Engine(Protocol):
    """Runs attempts. Every call may be repeated; the answer to a repeat is the same.

    Each service that takes an engine over has a higher `epoch` than all before it. A launch or stop
    of a lower one than the engine has seen changes nothing and raises Overtaken, also after a crash
    of the engine: who was overtaken without knowing must not act.
    """

    name: str
    capabilities: Capabilities  # a job that needs another one is refused when submitted

    async def open(self) -> None:
        """Connect, starting what must be started. Raises EngineUnavailable."""

    async def launch(self, launches: Sequence[Launch], *, epoch: int = 0) -> None:
        """Start attempts that were never started; no other one ever is, known or forgotten.

        Without any, it makes the epoch known.

        Of one that is over and was forgotten it is told once more what became of it. Returns when
        the engine has taken the launches; that they run, or why they do not, comes as observations.
        """

    async def stop(
        self,
        keys: Sequence[AttemptKey],
        notice: PreemptionNotice | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        """End attempts whole: TERM, grace, KILL, until nothing of them is left.

        With a notice they get its signal first. One that has it and is told again, without it, gets
        TERM at once; everything else that is told twice changes nothing.

        One that is not known will never be started: a launch of it that is still on the way finds
        a tombstone, also after a crash of the engine and after `forget`. It is observed as
        NOT_STARTED, or as LOST where it was started once: whoever asks for its end can wait for an
        observation in any case.
        """

    async def pause(self, keys: Sequence[AttemptKey], *, paused: bool) -> None:
        """Have all processes of attempts stand still, or go on. What stands still can be stopped.

        One that is not known, or over, is passed over.
        """

    async def observe(self) -> list[Observation]:
        """Every attempt the engine knows and was not told to forget.

        One that is taken but not started yet may be missing; launching it again is harmless.
        """

    async def capacity(self) -> EngineCapacity | None:
        """The nodes that it runs jobs on, and what others have of them. Raises EngineUnavailable.

        None for an engine without books of its own: its nodes are read through devices.
        """

    async def forget(self, keys: Sequence[AttemptKey]) -> None:
        """The ends of these attempts are on record elsewhere; the engine may drop them."""

    def changes(self) -> AsyncIterator[list[Observation]]:
        """Observations as they happen, in batches. Ends when the engine is closed.

        After a reconnect the first batch is everything, as from `observe`.
        """

    def traced(self, pid: int) -> Traced:
        """Where a process of this machine comes from. Blocks for as long as the kernel takes.

        Asked only of an engine that has local processes.
        """

    def now(self) -> int:
        """Ms on the clock of its observations, which nobody can set: see `Observation.at`."""

    async def read_log(self, key: AttemptKey, stream: str, offset: int, limit: int) -> Piece:
        """Up to `limit` bytes of "stdout" or "stderr" from `offset`, or from there before its end
        where that is negative; nothing where nothing is there yet. Whoever follows a log asks
        again. Never the log of an attempt of the same name and another identity.

        Raises NoLog, LogUnreadable and EngineUnavailable.
        """

    def log_dir(self, key: AttemptKey) -> str | None:
        """For people: the folder in which a new attempt's logs will be, where it has one."""

    @property
    def stuck_reads(self) -> int:
        """How many reads of logs do not come back."""

    async def evidence(self, ends: Sequence[Observation]) -> Mapping[AttemptKey, Evidence]:
        """What can be found of those that failed: the ends of their logs, whom the kernel killed.

        Soon, and as much as there is: what cannot be read is left out, and nothing is raised.
        """

    async def pairing(self) -> Pairing | None:
        """Asked before it is opened. None: what it knows ends with the service, as in a test."""

    async def pair(self, pairing: Pairing) -> None:
        """Keep its name, the database's name, and the mark, durably. Raises EngineUnavailable."""

    async def mark(self, seq: int, number: int) -> None:
        """Note durably how far the database is, before launches. Raises EngineUnavailable."""

    async def close(self) -> None:
        """Let go of the engine. What runs goes on running."""
