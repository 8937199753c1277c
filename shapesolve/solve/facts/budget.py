"""All limits of facts and of the solver, each with its quantity and unit. Z3's are resource counts: the same on every machine.

The size of a condition is the number of its atoms, counted as a tree.
"""

from __future__ import annotations

from typing import Final

# queries
RLIMIT: Final = 1_000_000  # Z3 resources per query and encoding, 0.2 s; `analyze(rlimit=...)` replaces it
CHEAP_RLIMIT: Final = 50_000  # the same of cheap queries, whose answer is only nice to have
CHEAP_FAILURES: Final = 4  # cheap queries without an answer, after which no more are asked
TIMEOUT_MS: Final = 4_000  # milliseconds of a query, where Z3 does not count its work
MAX_QUERIES: Final = 48  # queries of one purpose, and contract terms that are compared with each other
MAX_PAIRS: Final = 2000  # pairs of sizes that broadcasts compare in one query; one with more has no answer
MAX_LINKED: Final = 64  # conditions of a cheap query, and direct neighbours in each step of its cone
MAX_NEAR: Final = 32  # conditions of a cheap query that has more, the nearest ones
MAX_CHEAP_SIZE: Final = 600  # size of the conditions of a cheap query, and of all cases of a query
MAX_CHEAP_ASKED: Final = 4000  # size of the conditions in all cheap queries to Z3 of one purpose
MAX_CHEAP_WORK: Final = 10_000  # size of the conditions in all cheap queries of one purpose
MAX_CASES: Final = 16  # cases of a query: values of a symbol, or members of an alternative, taken apart
MAX_FACTORED: Final = 1 << 20  # a number whose factors are tried
MAX_ROUNDS: Final = 200  # rounds of a fixpoint
LARGEST_BOUND: Final = 2**40  # bounds and values of a dim that are looked for

# search for sizes
FIRST_SIZES: Final = 32  # sizes at which conditions on one symbol are compared before a table is made
SEARCH_TRIES: Final = 240  # assignments tried before Z3 is asked; a tenth before cases are taken apart
MAX_SEARCH_WORK: Final = 50_000  # tries times conditions, of one query or of all examples of open broadcasts
SMALL_DOMAINS: Final = (16, 4096)  # largest sizes that are easy to read, and that are common
FAR: Final = 64  # largest change of a size near known ones, and smaller values of a counterexample
NEAR: Final = 8  # the same for two sizes at once, and for sizes next to each other
MAX_AHEAD: Final = 4096  # sizes, or divisors, tried one by one starting with one
MAX_TRIED: Final = 20_000  # sizes tried near known ones: all pairs of 12 names
MAX_AROUND_WORK: Final = 1_000_000  # size of conditions times the sizes near known ones

# forms of conditions and sizes
TABLE_SIZES: Final = 5000  # sizes in the table from which the simple form of a condition is guessed
MAX_TABLE: Final = 1 << 14  # sizes in the table that decides conditions on one symbol
MAX_PERIOD: Final = 1024  # a period of a condition of divisibility
MAX_LISTED: Final = 4  # values listed in a guessed form, or min. sizes of a broadcast written as a group
MAX_FORMS: Final = 60  # candidates of one kind for a shorter form
MAX_PROOFS: Final = 8  # candidates, or earlier pairs, that one is compared with by proof
MAX_SIMPLIFIED: Final = 6000  # size of an expression that is simplified
LONGER: Final = 16  # size that a cheaper form may have more: ``x % k`` is kept as ``x - k*(x//k)``

# contracts
MAX_WORKED_ON: Final = 20_000  # size of the terms that are compared, each times those before it
MAX_SHORTENED: Final = 16  # contract terms that a shorter form is looked for
MAX_READ: Final = 150  # size of a term that is shortened, and of all terms of a contract that are
MAX_NAMING: Final = 17  # size of a term whose nodes and assumptions are named exactly; a larger one names all
HUGE_SIZE: Final = 10**9  # a size that no input has; exporters write such bounds for "to the end"
MAX_POINTS: Final = 24  # sizes that break one contract term alone
MAX_CONDS: Final = 48  # constraints of a proof, or conditions on a symbol, that are left out one by one
MAX_PROJECTED: Final = 2_000  # size of the conditions that remain when a symbol is eliminated
MAX_COMBINED: Final = 64  # inequalities, or combinations of alternatives, when a symbol is eliminated
