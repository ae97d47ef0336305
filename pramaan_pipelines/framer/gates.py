"""The gates before the claim, each a function from what it is given to a verdict.

Promises: run in the order in which they stand here, they are the contract; a refusal names a reason
and places, never a value.
Never: writes; what a gate finds is recorded by `FrameJobClaims`.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from pramaan_pipelines.contracts.canary import CANARY_FIRM_ID
from pramaan_pipelines.contracts.envelopes import MatterCreated, parse_matter_created
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, RefusalReason
from pramaan_pipelines.store.database import require_firm

# Each answer comes with the firm that the transaction really works for: under another firm, or
# none, "not there" would be no answer.
# Reads agent_run_firm_id_trigger_event_id_key (firm_id, trigger_event_id).
RUN_OF_EVENT: Final = text("""
    SELECT current_setting('app.firm_id', true), EXISTS (
        SELECT 1 FROM agents.agent_run
        WHERE firm_id = :firm_id AND trigger_event_id = :event_id)
""")

SUBJECT: Final = text("""
    SELECT current_setting('app.firm_id', true), EXISTS (
        SELECT 1 FROM public.matters WHERE id = :matter_id AND firm_id = :firm_id)
""")

CONSENT: Final = text("""
    SELECT current_setting('app.firm_id', true), (
        SELECT bool_and(granted) FROM public.firm_inference_egress_consents
        WHERE firm_id = :firm_id)
""")


def parse(body: str) -> MatterCreated:
    """Gate 1 (HR-21): the envelope in `body`, EventBridge's wrapper removed.

    Raises:
        EnvelopeRefusedError: malformed.
    """
    return parse_matter_created(body)


def check_environment(envelope: MatterCreated, environment: str) -> None:
    """Gate 2 (EB-09): the envelope's environment is ours.

    Raises:
        EnvelopeRefusedError: it is another's.
    """
    if envelope.environment != environment:
        raise EnvelopeRefusedError(RefusalReason.WRONG_ENVIRONMENT, ["environment"])


def is_handled(connection: Connection, *, firm_id: UUID, event_id: UUID) -> bool:
    """Gate 3 (EB-07): whether a run row with this trigger_event_id exists.

    A deployment's canary asks for nothing, so that it was handled when it was sent.

    Args:
        connection: under the envelope's firm.
        firm_id: the envelope's firm.
        event_id: the envelope's event.

    Raises:
        ScopeError: the connection works for another firm, or for none.
    """
    return firm_id == CANARY_FIRM_ID or _under(connection, firm_id, RUN_OF_EVENT, event_id=event_id)


def check_subject(connection: Connection, *, firm_id: UUID, matter_id: UUID) -> None:
    """Gate 4 (EB-17, EB-06): the matter is visible under the envelope's firm.

    Args:
        connection: under the envelope's firm; row level security decides what is visible.
        firm_id: the envelope's firm.
        matter_id: the envelope's subject.

    Raises:
        EnvelopeRefusedError: it is not; a forged envelope, or a matter that is gone.
        ScopeError: the connection works for another firm, or for none.
    """
    if not _under(connection, firm_id, SUBJECT, matter_id=matter_id):
        raise EnvelopeRefusedError(RefusalReason.SUBJECT_NOT_VISIBLE, ["firm_id", "subject.id"])


def load_egress_consent(connection: Connection, *, firm_id: UUID) -> bool:
    """Gate 5 (EB-11): the firm's inference-egress consent; what is absent is not granted.

    Args:
        connection: under the envelope's firm.
        firm_id: the envelope's firm.

    Raises:
        ScopeError: the connection works for another firm, or for none.
    """
    return _under(connection, firm_id, CONSENT)


def _under(connection: Connection, firm_id: UUID, question: TextClause, **more: UUID) -> bool:
    scope, answer = connection.execute(question, {"firm_id": firm_id, **more}).one()
    require_firm(scope, firm_id)
    return answer is True
