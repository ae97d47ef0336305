"""Whose fault a failed call or a failed entry is: one classification for both services.

Promises: an outage, a refused credential or a missing destination is never told as a fault of the
message; what is unknown and named by the service as ours is REFUSED, which the lane bounds.
Never: lets a service's text through unsafe, or decides what happens to the row.

Source: the error lists of SQS SendMessageBatch and EventBridge PutEvents, and the common errors of
both: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
"""

from typing import Final

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.messaging.publisher import SendResult, SendStatus

IMPOSSIBLE_CODES: Final = frozenset(
    {"InvalidMessageContents", "BatchRequestTooLong", "MalformedDetail"}
)
TOO_LONG_TEXTS: Final = ("must be shorter than", "over the limit", "longer than")
"""Both services tell a size only in the text of a code that has many meanings."""
TOO_LONG_CODES: Final = frozenset({"InvalidParameterValue", "ValidationException"})

UNAVAILABLE_CODES: Final = frozenset(
    {
        # throttling
        "LimitExceededException",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        # the service's own trouble
        "InternalError",
        "InternalException",
        "InternalFailure",
        "InternalServerError",
        "InternalServiceError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        # credentials, permissions, clocks
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidAccountIdException",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "NotAuthorizedForDetailTypeException",
        "NotAuthorizedForSourceException",
        "OptInRequired",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
        # a destination that is missing, or another service behind the address
        "InvalidAction",
        "InvalidAddress",
        "NonExistentQueue",
        "OperationDisabledException",
        "QueueDeletedRecently",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "UnknownOperationException",
        "UnsupportedOperation",
    }
)
CALL_ERRORS: Final = (
    BotoCoreError,
    ClientError,
    LookupError,
    AttributeError,
    TypeError,
    ValueError,
)
"""What a boto3 call may raise. The last four: botocore's parser meets a body that is not of the
protocol, which is what a proxy in between answers with."""

_UNAVAILABLE_HTTP: Final = frozenset({401, 403, 404, 407, 408, 429})
_LEGACY_PREFIX: Final = "AWS.SimpleQueueService."


def entry_fault(code: object, message: object, *, sender_fault: bool) -> SendResult:
    """Return the result of one entry that an answer names as failed.

    Args:
        code: the service's code for this entry.
        message: its text; made safe here.
        sender_fault: SQS's SenderFault. EventBridge says no such thing: there, every code that is
            not known as the service's own is the sender's.
    """
    name = short_code(code)
    status = _status_of({name}, str(message or ""))
    if status is None:
        status = SendStatus.REFUSED if sender_fault else SendStatus.UNAVAILABLE
    return SendResult(status, _detail(name, message))


def call_fault(error: Exception) -> SendResult:
    """Return what a failed call means for each message that was in it.

    UNAVAILABLE is the call's own trouble. Any other status is the fault of at least one message;
    with several in the call, the caller must ask again for each alone.

    Args:
        error: whatever the boto3 call raised.
    """
    if isinstance(error, ClientError):
        return _client_error(error)
    if isinstance(error, ParamValidationError):
        return SendResult(SendStatus.REFUSED, _detail("ParamValidationError", error))
    # All that is left are connections, time-outs, credentials and answers that cannot be read:
    # botocore's parser raises bare errors of Python for a body that is not of the protocol.
    kind = type(error).__name__
    text = error if isinstance(error, BotoCoreError) else "the answer could not be read"
    return SendResult(SendStatus.UNAVAILABLE, _detail(kind, text))


def error_codes(error: ClientError) -> frozenset[str]:
    """Return every name that the service gave the error, without prefixes.

    SQS answers with two: the shape's name and the one of its old query protocol.
    """
    body = error.response.get("Error", {})
    named = (body.get("Code"), body.get("QueryErrorCode"))
    return frozenset(short_code(code) for code in named if code)


def short_code(code: object) -> str:
    """Return `code` without the namespace that SQS's query protocol puts before it."""
    return safe_text(code or "Unknown", 100).removeprefix(_LEGACY_PREFIX)


def describe(error: Exception) -> str:
    """Return the error's code and text, safe to store and to show."""
    return call_fault(error).detail or type(error).__name__


def _client_error(error: ClientError) -> SendResult:
    body = error.response.get("Error", {})
    http = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    detail = _detail(short_code(body.get("Code")), body.get("Message"))
    status = _status_of(error_codes(error), str(body.get("Message", "")))
    if status is None:
        ours = 400 <= http < 500 and http not in _UNAVAILABLE_HTTP  # noqa: PLR2004 - HTTP's classes
        status = SendStatus.REFUSED if ours else SendStatus.UNAVAILABLE
    return SendResult(status, detail)


def _status_of(codes: set[str] | frozenset[str], message: str) -> SendStatus | None:
    # Kms* and KMS.*: the key belongs to the queue, never to a message.
    if codes & UNAVAILABLE_CODES or any(code.upper().startswith("KMS") for code in codes):
        return SendStatus.UNAVAILABLE
    if codes & IMPOSSIBLE_CODES:
        return SendStatus.IMPOSSIBLE
    if codes & TOO_LONG_CODES and any(text in message for text in TOO_LONG_TEXTS):
        return SendStatus.IMPOSSIBLE
    return None


def _detail(code: str, message: object) -> str:
    text = safe_text(message or "", 400)
    return f"{code}: {text}" if text else code
