"""What is put on record beside the events of the state: documents of others, rows of the audit."""

from collections.abc import Callable, Iterable, Mapping

from tgpu.core.state.cluster_state import State
from tgpu.service.recording.decision import Decision
from tgpu.service.recording.writer import Writer
from tgpu.store.api import AuditRow


class Recorder:
    """For whoever decides nothing about jobs. Raises Unavailable where the store does not work."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def put_documents(
        self,
        documents: Mapping[tuple[str, str], bytes | None],
        *,
        touches: Iterable[str] = (),
        applied: Callable[[], None] | None = None,
    ) -> None:
        """Durable once it returns; None in the place of a document removes it. `applied` is called
        when they are on record, before any command that touches the same."""

        def decide(_: State) -> Decision[None]:
            return Decision(None, documents=documents, applied=applied)

        await self._writer.do(decide, touches)

    async def add_audit_row(self, row: AuditRow) -> None:
        def decide(_: State) -> Decision[None]:
            return Decision(None, audit=[row])

        await self._writer.do(decide, ())
