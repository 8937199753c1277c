"""All limits of the solver in one place. Z3's are resource counts: the same on every machine."""

from __future__ import annotations

#: Z3 resources per query and encoding; a million is about 0.2 s (`analyze(rlimit=...)` replaces it)
RLIMIT = 1_000_000
#: resources for queries whose answer is only nice to have (redundancy, smaller numbers)
CHEAP_RLIMIT = 50_000
#: cheap queries that may end without an answer before no more are asked
CHEAP_FAILURES = 4
#: milliseconds after which a query is stopped even when Z3 does not count its work; twenty times what it takes else
TIMEOUT_MS = 4_000

#: assignments tried by evaluation before Z3 is asked
SEARCH_TRIES = 240
#: tries times the symbols and conditions of the query; of a large one fewer are tried
MAX_SEARCH_WORK = 50_000
#: of these, how many before the conditions are taken apart by cases
FIRST_TRIES = 24
#: cases that a question is taken apart into (or sizes of a broadcast that are written out), and the size of the conditions in
#: all of them together
MAX_CASES = 16
MAX_CASE_SIZE = 400
#: values of one symbol, or members of an alternative, that are worth a case each
MAX_BRANCHES = 24
#: the largest number whose factors are tried
MAX_FACTORED = 1 << 20
#: inequalities kept while unknowns are eliminated
MAX_LINEAR_ROWS = 64
#: sizes in the table that decides conditions on one symbol
MAX_TABLE = 1 << 14
#: largest values that a counterexample is first looked for with
SMALL_DOMAINS = (16, 4096)
#: smaller values tried per symbol when a counterexample is shrunk
SHRINK_TRIES = 40

#: sizes at which a condition on one symbol is tabulated to guess its simple form
TABLE_SIZES = 5000
#: a period tried for conditions of divisibility
MAX_PERIOD = 1024
#: single values that a guess may list
MAX_LISTED = 4

#: size of the conditions of a contract that are made shorter and compared, each times the number of those before it; beyond,
#: the largest stay as they are
MAX_WORKED_ON = 20_000
#: contract terms beyond this number are not compared with each other by Z3
MAX_REDUNDANCY = 80
#: contract terms that a shorter form is looked for, and the conditions nearest to each that it may rest on
MAX_SHORTENED = 16
#: max size of a term that is shortened, and of all terms of a contract that are
MAX_READ = 150
MAX_BESIDE = 16
#: questions asked to name exactly the non-emptiness assumptions that contract terms rest on
MAX_ASSUMPTION_QUERIES = 24
#: size of a term whose nodes and assumptions are found by trying sizes and leaving assumptions out; a larger one names all
MAX_NAMING = 17
#: constraints of a proof beyond this number are not reduced to a minimal core by deletion
MAX_CORE_DELETION = 48
#: size of the conditions that facts learn to tell, where the solver does not, whether contract terms follow from others
MAX_TOLD = 8000
#: nodes of the search tree that lists several minimal cores
MAX_CORE_NODES = 64
#: pairs of dims that look equal, compared by proof
MAX_EQUALITY_QUERIES = 48
#: conditions that all examples of open broadcasts together are tried at
MAX_EXAMPLE_WORK = 100_000
#: conditions that a cheap question takes into account, the nearest ones first
MAX_NEAR = 32
#: max direct neighbours (conditions that share a symbol) per expansion step of a query
MAX_MET = 64
#: a cheap question takes all the conditions that it is linked to up to this many; above, the nearest ones only
MAX_CHEAP = 64
#: size of the conditions in all cheap questions of one purpose; beyond, no more are answered
MAX_CHEAP_WORK = 10_000
#: max size of the conditions of a cheap query that Z3 answers at its cost
MAX_CHEAP_SIZE = 600
#: max size of the conditions in all cheap queries of one purpose to Z3, which costs a second per 10,000; a question that is
#: larger by itself is asked in one way only
MAX_CHEAP_ASKED = 4000
#: size of conditions times the sizes near to usual ones at which they are tried, before a solver looks for some
MAX_AROUND_WORK = 2_000_000
#: the same for sizes near to known ones, with which one condition is broken or all of a question hold
MAX_NEAR_WORK = 1_000_000
#: work of all searches for sizes that break one contract term alone
MAX_WITNESS_WORK = 15_000
#: pairs of sizes that broadcasts compare in one question; a question with more has no answer
MAX_PAIRS = 2000

#: bounds of a dim are looked for up to this size
LARGEST_BOUND = 2**40
