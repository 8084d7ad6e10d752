"""A journal as the trace of a simulation, with its own cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli.failures import bad_input
from tgpu.text.plurals import plural

if TYPE_CHECKING:
    from tgpu.simulate.rows import TraceRows
    from tgpu.simulate.world import Cluster


def is_journal(trace: str) -> bool:
    from tgpu.journal import lines

    path = Path(trace)
    return path.is_file() and lines.is_journal(path)


def rows_of(trace: str) -> "TraceRows":
    """Its jobs that are over. How many are not is in `left_out`."""
    from tgpu.cli.journals import JournalSource, opened, reading
    from tgpu.cli.output import note
    from tgpu.journal.trace import read_rows

    with opened(JournalSource(Path(trace))) as journal, reading(journal.header.last_seq) as tell:
        rows = read_rows(journal, tell)
    if rows.left_out:
        note(f"left out {plural(f'{rows.left_out:,}', 'job')} that had not ended or never started")
    if not journal.is_whole:
        note(f"{rows.file} was cut off: its last line is missing")
    return rows


def cluster_of(trace: str) -> "Cluster":
    """The nodes and tenants of the journal itself."""
    from tgpu.cli.journals import JournalSource, opened
    from tgpu.journal.trace import cluster_of as of_header

    if not is_journal(trace):
        raise bad_input(
            "--cluster is missing: only a journal of `tgpu export` includes nodes",
            "--cluster 100x8 is 100 nodes of 8 GPUs",
        )
    with opened(JournalSource(Path(trace))) as journal:
        found = of_header(journal)
    if not found.gpus():
        raise bad_input(f"{trace} has no nodes; give them with --cluster")
    return found
