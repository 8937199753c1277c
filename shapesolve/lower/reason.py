"""`Reason`: text of a requirement with a stable id. Code that compares reasons uses the id, never the words.

Most reasons are the rule's own words, a plain text; one stands here when titles or advice depend on it.
"""

from __future__ import annotations


class Reason(str):
    """Text of a requirement, with an id by which code can recognize it.

    Attributes:
        id: Id of the requirement, independent of the wording; empty for a plain text (see `reason_id`).
        fault: What a node that breaks it does, after the operator's name: ``crops more than the axis has``.
        detail: The text with one node's numbers, for a message about this node; may be empty. It names no tensors,
            because
            equal nodes share their requirements.
    """

    __slots__ = ("detail", "fault", "id")

    id: str
    fault: str
    detail: str

    def __new__(cls, text: str, id: str, fault: str = "", detail: str = "") -> Reason:
        """Return a reason with this text and id."""
        made = super().__new__(cls, text)
        made.id, made.fault, made.detail = id, fault, detail
        return made

    def __reduce__(self) -> tuple[type[Reason], tuple[str, str, str, str]]:
        return Reason, (str(self), self.id, self.fault, self.detail)


def reason_id(why: str) -> str:
    """Return the id of a reason; empty for plain text."""
    return why.id if isinstance(why, Reason) else ""


def fault_of(why: str) -> str:
    """Return the text of the fault of a node that breaks the requirement; empty if there is none."""
    return why.fault if isinstance(why, Reason) else ""


def detailed(why: str, detail: str) -> Reason:
    """Return the same reason, with the numbers of one node."""
    return Reason(why, reason_id(why), fault_of(why), detail)


def detail_of(why: str) -> str:
    """Return the text for a message about one node: with the numbers of this node, if the reason has these."""
    return why.detail or why if isinstance(why, Reason) else why


def formula(text: str) -> Reason:
    """Return the reason for a condition written in a signature."""
    return Reason(text, "formula")


def channels(text: str) -> Reason:
    """Return the reason for a requirement of a convolution on its channels."""
    return Reason(text, "channels", "has a weight for another number of channels")


BROADCAST = Reason("broadcast sizes must be equal or 1", "broadcast")
ADDED = Reason(
    "the added term must have the size of the product, or 1", "added", "cannot add its bias to this product"
)
ELEMENTS = Reason("Reshape keeps the number of elements", "elements")
KERNEL = Reason("kernel must not exceed the padded input", "kernel", "cannot place its kernel on this input")
WINDOW = Reason(
    "dilated window must not exceed the padded input", "window", "cannot place its window on this input"
)
CROP = Reason("Pad must not crop more than the axis has", "crop", "crops more than the axis has")
MOST = Reason("k must be at most the size of the axis", "most", "selects more elements than the axis has")
EMPTY_POOL = Reason(
    "an empty pooling input is supported only if the batch is known to be empty", "empty-pool"
)
EMPTY_GROUPS = Reason("groups cannot be formed in an empty tensor", "empty-groups")
EMPTY_RESHAPE = Reason("inferring -1 is supported only if no other entry is 0", "empty-reshape")
JOIN = Reason("Concat inputs must have the same size on the other axes", "join")
JOIN_ELEMENTS = Reason("all elements of the sequence must have this size", "join-elements")
