"""Limits on conflicts, repairs, traces and findings, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

# work
MAX_CONFLICTS: Final = 100  # conflicts that are explained
MAX_LOWERED = 40_000  # nodes that all trials for conflicts lower together; not `Final`: tests lower it
MAX_FOR_LIMITS: Final = 1_000  # such nodes in a model that runs; a quarter for edits without siblings
MAX_FOR_CAUSES: Final = 12_000  # such nodes with unknowns in place of stored sizes and numbers
MAX_STATED: Final = 8  # max. user conditions or defaults to leave out one by one
MAX_CONE: Final = 64  # nodes that lead to an operand and can be edited, or are searched for constants
MAX_RANK: Final = 5  # axes that are reordered
MAX_LINKS: Final = 400  # computing links of a trace; those that pass a dim on are not counted
MAX_PLACES: Final = 20_000  # links of a derivation, which goes through every layer of a model
MAX_PROBES: Final = 200  # max. positions of equal numbers that one tracer distinguishes
MAX_SIZE: Final = 200  # size of a condition that is looked at
MAX_SAMPLES: Final = 64  # sizes tried by evaluation for one that breaks a single condition
HUGE: Final = 1 << 20  # a size that no model has

# messages
MAX_LISTED: Final = 4  # nodes, reasons, conditions, symbols or operands that a message lists
MAX_NUMBERS: Final = 8  # attributes of a node, and numbers of a tensor, that are listed or freed
MAX_EXAMPLES: Final = 2  # sizes that run, equally good repairs, or operands of a link that a message lists
MAX_SHOWN_STEPS: Final = 12  # steps of a trace that a message lists
MAX_SHORT: Final = 12  # characters of an expression that a shape at given sizes or a help line holds
MAX_QUOTED: Final = 160  # characters of a condition in a title
MAX_LINES: Final = 20  # items of a list, and inputs or outputs of a graph that stand alone
