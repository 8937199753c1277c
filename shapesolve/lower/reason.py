"""`Reason`: text of a requirement with a stable id. Code that compares reasons uses the id, never the words.

Most reasons are the rule's own words, a plain text; one stands here when titles or advice depend on it.
"""

from __future__ import annotations


class Reason(str):
    """Text of a requirement, with an id by which code can recognize it.

    Attributes:
        id: what is required, the same whatever the words; empty for a plain text (see `reason_id`).
        fault: what an operator's node does where it is broken, after the operator's name: ``crops more than there is``.
        detail: the text with the numbers of one node, for a message about this node; empty if it has none. It names no
            tensors, because equal nodes share what is stated of them.
    """

    __slots__ = ("detail", "fault", "id")

    id: str
    fault: str
    detail: str

    def __new__(cls, text: str, id: str, fault: str = "", detail: str = "") -> Reason:
        """A reason with this text and id."""
        made = super().__new__(cls, text)
        made.id, made.fault, made.detail = id, fault, detail
        return made

    def __reduce__(self) -> tuple[type[Reason], tuple[str, str, str, str]]:
        return Reason, (str(self), self.id, self.fault, self.detail)


def reason_id(why: str) -> str:
    """The id of a reason; empty for plain text."""
    return why.id if isinstance(why, Reason) else ""


def fault_of(why: str) -> str:
    """Text of the fault of a node that breaks the requirement; empty if there is none."""
    return why.fault if isinstance(why, Reason) else ""


def detailed(why: str, detail: str) -> Reason:
    """The same reason, with the numbers of one node."""
    return Reason(why, reason_id(why), fault_of(why), detail)


def detail_of(why: str) -> str:
    """The text for a message about one node: with the numbers of this node, if the reason has these."""
    return why.detail or why if isinstance(why, Reason) else why


def formula(text: str) -> Reason:
    """The reason for a condition written in a signature."""
    return Reason(text, "formula")


def channels(text: str) -> Reason:
    """The reason for a requirement of a convolution on its channels."""
    return Reason(text, "channels", "has a weight for another number of channels")


BROADCAST = Reason("broadcasting needs equal sizes, or one of them 1", "broadcast")
ADDED = Reason(
    "the added term must have the size of the product, or 1", "added", "cannot add its bias to this product"
)
ELEMENTS = Reason("Reshape keeps the number of elements", "elements")
KERNEL = Reason(
    "the kernel must fit into the padded input", "kernel", "cannot place its kernel on this input"
)
WINDOW = Reason(
    "the dilated window must fit the padded input", "window", "cannot place its window on this input"
)
CROP = Reason("Pad must not crop more than there is", "crop", "crops more than there is")
MOST = Reason("k must be at most the size of the axis", "most", "asks for more elements than there are")
EMPTY_POOL = Reason("a pool of nothing is followed only where the batch is known to be empty", "empty-pool")
EMPTY_GROUPS = Reason("groups cannot be formed in an empty tensor", "empty-groups")
EMPTY_RESHAPE = Reason("what -1 stands for is followed only where no other entry is 0", "empty-reshape")
JOIN = Reason("Concat needs equal sizes on the other axes", "join")
JOIN_ELEMENTS = Reason("all elements of the sequence must have this size", "join-elements")
