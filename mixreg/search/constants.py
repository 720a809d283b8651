"""Numbers that the search goes by, each with the benchmark that set it.

Sets named below are those of `python -m benchmarks search --real`; other benchmarks are named
by their command. Where none is named, the value is a first choice that the whole of that table
gave no reason to change.
"""

from __future__ import annotations

from mixreg.estimators.loop import Control

# Levels, rounds, budget

# Of larger data a sample is searched, and what it does not show to be worse is run on all rows:
# so many values, but at least and at most so many rows (`python -m benchmarks scale`).
SEARCHED_VALUES, SEARCHED_ROWS = 4_000_000, (100_000, 400_000)
# Most maxima of such a sample that are run on all rows.
MOST_OPEN = 4
# Rows of the first level: so many for each coefficient, and at least ...
ROWS_EACH, FEWEST = 15, 1_000
# A count or a choice says less than a measurement does.
FEWEST_OTHERS = 2_500
# Groups of the first level, for each component.
UNITS_EACH = 40
# Each level has so many times the rows of the one below.
FACTOR = 9
# Starts of a round. Eight that end at one maximum leave a chance of 2 in 56 that
# one more would find another (see `unseen`).
ROUND = 8
# A search stops starting when the chance of another maximum is below this, ...
ENOUGH = 0.05
# ... or when so many starts ended at one that is better than all others; a few may share
# that, on a sample two.
SEVERAL, FEW, TWINS = 3, 5, 2
# Starts that challenge what a small sample agreed on, the tensor's among them (cps1988, k = 3).
CHALLENGERS = 2
# Starts on many rows that settle a search if all of them end where those of a sample did: a maximum
# that half of all starts miss passes them once in 16 times (cps1988, k = 3: 0.55 of the time of ten
# plain starts, 0.94 without).
WITNESSES = 4
# Share of the starts that must have ended at these; more on samples of counts and
# choices, which say less.
MOST, NEARLY_ALL = 0.5, 0.85
# Rows whose moments the tensor start is of: so many for each coefficient, and at least ... With
# 30,000 rows the tensor start of k = 20 components in 20 dimensions is lost, with 200,000 it leads
# to the maximum (`scale --only growth`).
MOMENTS_EACH, MOMENT_ROWS = 500, 30_000
# Tensor starts that are run on more rows where starts on a sample did not agree: so many, on
# at least so many rows.
TENSORS, TENSOR_ROWS = 1, 10_000
# A maximum is clearly worse if it is so by this many standard errors.
CLEARLY = 3.0
# Most maxima of a sample that climb to all rows where its starts disagree, and most
# rows on which they are challenged.
PROMOTED, WIDE_ROWS = 5, 100_000
# Moves start from the leader and from so many of the maxima behind it: on the bank data
# with k = 4 the best maximum is out of reach of one that starts often end at, not of lower ones.
# One move in FOR_LEADER is the leader's.
PARENTS, FOR_LEADER = 10, 4
# A round of starts, then so many batches of moves, in turn.
BATCHES = 3
# Starts and moves that must fail, most starts, and what the search may cost in plain starts on all
# rows, for each unit of n_init (`search --real`: 0.15 to 1.02 times the time of ten plain starts).
PATIENCE, STARTS_EACH, RUNS_EACH = 5, 6, 0.5
# Most that a search may cost, in multiplications (half a minute or so): plain starts with more
# components than there are take for ever on many rows (`scale --only spare`), and where rows are
# few, hundreds of dummies would.
MOST_WORK = 1e11
# So many times that where only an exact fit means much (`benchmarks recovery`, k = 3, n = 8p,
# p = 80: 95 of 100 without it, 98 with it, 15 seconds at the most; 100 without a limit).
MOST_IF_SCARCE = 2
# Share of the budget for starts on the first level, and where only an exact fit means much.
FOR_STARTS, FOR_EXACT = 0.35, 0.85
# Moves of a batch; more where data are few and overhead rules.
LEAST_BATCH, MOST_BATCH = 8, 48
# Maxima this near to the leader are run on together, at most so many.
NEAR, MOST_NEAR = 1.0, 8
FINISH = Control(max_iter=100, tol=1e-9, leaps=True)
# Passes that the information of Newton's steps counts for (`estimators/newton.py`).
INFORMATION = 8
# What a plain start takes beside the iterations of a run in a stack: more of them,
# because it goes to the end, and Newton's steps and standard errors, which cost the
# more the more coefficients there are.
MORE_ITERATIONS, FINAL_EACH = 1.5, 0.55
# A run of the search takes no more than fifty iterations, and one on a view may: a plain start does
# not (with 40 in all two seeds of five miss a tight segment of 60 rows among 600).
MOST_PASSES = 75
# What a Newton step costs whatever the rows, in passes.
STEP = 5.0
# What a pass costs whatever the rows, and what a plain start takes beside its passes, in
# multiplications of which a second has three thousand million: 0.3 and 8 ms (cheese, tonedata,
# CO2data and wlddev of the benchmark).
PASS, BESIDE = 1e6, 2.5e7
# Moves that a leader must hold against where starts settled it may cost so much without passes;
# data on which two rounds cost no more than CHEAP are not sampled.
FEW_MOVES = 1e8
CHEAP = 8e8
# Where starts agreed, that much less; and the fewest and the most moves, agreed or not.
IF_AGREED = 0.3
LEAST_MOVES, LEAST_AGREED, MOST_MOVES = 4, 2, 80
# What a search on shared rows may cost, over what one on rows may (bank).
OF_SHARED = 0.8
# Likewise on rows that are alike and taken together: what moves cost beside passes is not counted
# (amis, k = 3).
OF_ALIKE = 0.5
# With fewer rows than this for each coefficient there are many maxima, and only an
# exact fit means much: it is worth so many times more (`benchmarks recovery`).
SCARCE, MORE_IF_SCARCE = 5, 24
# One start in so many says where to look next (`benchmarks recovery`, k = 3, n = 8p, p = 80).
BEST = 4
# Rows on a lattice make many maxima too, as components turn exact.
MORE_ON_LATTICE = 2
# Kinds of starts, in turn.
CYCLE = ("labels", "subspace", "labels", "partition", "labels", "random")
ANNEAL = Control(max_iter=8, tol=0.0)
ANNEAL_LONG = Control(max_iter=25, tol=0.0)
HARD_LABELS = Control(max_iter=15)

# Runs

# Rows of linear regressions whose products of regressors are kept: measured on cps1988
# and diamonds of the benchmark.
SHARED_GAIN = 3.4
# With more regressors the products themselves cost most: a share of the gain (ames, p = 31).
SHARED_OF_ONE = 18.0
# Other families: measured on bank (14 regressors), randhie_visits (10) and doctorvisits (7).
GAIN_OF_ONE, MOST_GAIN = 12.0, 2.3
# Responses are on a lattice if less than this share of the first so many differ.
REPEATED, FIRST_ROWS = 0.1, 2_000
# All runs go on for some iterations, those with hope to the end. Runs from labels
# drawn at random begin on a plateau, and need more of them to show what they are.
WARM, TOLERANCE, TO_THE_END = 20, 1e-6, 30
# Runs that EM leaves within so much of the best are taken to their ends by Newton's steps: on flat
# ground EM crawls, and its ends look like maxima of their own (20,000 x 8, three segments, k = 4 to
# 6 of `benchmarks choosing`).
REACH = 8.0
# Where so many of a stack do not end that way, the others are left where EM left them (collapsing
# components under an inverse link, case 88 of `benchmarks torture`).
FAILURES = 3

# Starts

# Longest deviation of a start on a scale of logarithms or log odds.
MODERATE = 1.5
# Variance of starts made of components that were found, as a share of the pooled fit's.
BRED = 0.1
# By how much runs of partitions look along other directions, and what every component has
# everywhere, so that an empty cluster stays alive.
LOOK, ALIVE = (0.2, 1.0), 0.05
# Scoring steps that turn responsibilities into a fit, where one is not enough.
LABEL_STEPS = 3
MOST_HALVINGS = 30

# The tensor start

# Power starts for each component, and iterations of each.
POWER_STARTS, POWER_STEPS = 30, 20
# Shares of the largest possible noise variance that are tried in turn.
NOISE_GRID = (0.0, 0.3, 0.6, 0.8, 0.95)

# Moves

# Iterations that a move takes to its end, about, and those before it can be left behind.
MOVE_COST, WARM_MOVES = 20, 10
# Moves of a batch where a search insists: overhead rules where rows that are alike are few (amis).
INSISTING = 32
# Kinds of moves, in turn: on the benchmark's real sets (diamonds, bank) each of them
# finds maxima that the others miss, and swaps find most.
MOVES = ("swap", "merge", "swap", "split", "swap", "merge", "split", "shuffle")

# What counts as one maximum

# Two runs ended at one maximum if their linear predictors differ by less than
# this many standard errors of one (root mean square), and ...
SAME_POINT = 0.3
# ... if the log-likelihoods they are heading for differ by less than this, and by what runs that
# stop at a gain of TOLERANCE a row leave open: of many rows, runs to one maximum end as far apart
# as this for each row (cps1988, k = 3: 0.04 to 0.2 of 28,155 rows).
SAME_HEIGHT, LEFT_OPEN = 0.05, 5e-6
# Maxima within this of the winner are run to the end; others, at most so many, only
# where chance explains part of all ends (27 of 150 fits choose a chance line with 8 of them, 21
# with 24; `draw_plain` of benchmarks/segments.py).
CONTESTED, MOST_FINALISTS = 2.0, 24
# Maxima that only moves led to, and that are kept beside those that starts did.
MOST_KEPT = 60
# Labels of two maxima are the same segments from this Rand index on.
ALIKE_LABELS = 0.9

# What chance explains

# A component whose deviation is below this share of the others' is looked at.
TIGHT = 0.5
# A fit is ranked last where accidents as large are expected once in so many data sets. It is
# said that chance may explain a component where they are if every choice of rows counts as a
# line. Set on `draw_plain` of benchmarks/segments.py: with 100, 300 and 1,000 the fits that choose
# a chance line are 19, 14 and 10 of 150 (seeds from 20,000 on), and 24, 19 and 17 (from 5,000 on).
# Of the 300 sets of `draw_tight`, 7 are lost with 100 and 8 with 300.
ONCE_IN = 300.0
# Variances, over its own, of the two that a component is split into where it takes the place of an
# accident too. Without such starts the fits that choose a chance line are 17 and 20 of 150 (seeds
# as above), with them 14 and 19. Other values were not tried.
WIDER, NARROWER = 1.5, 0.5
# Fits that differ by less, but for what chance explains of them, are as good as each other
# (`search --chance`).
ALIKE = 10.0
# More than any log-likelihood.
EMPTY = 1e12

# Views: stand-ins and cells

# Starts and moves of a round on a view, with this n_init or more.
VIEW_STARTS, VIEW_MOVES, FULL_EFFORT = 24, 24, 16

# Stand-ins of groups

# Steps to a group's shrunken fit, and the longest of them (root mean square): with six steps
# the search is no better (bank, k = 4 and 5).
GROUP_STEPS, LONGEST_STEP = 4, 1.0
# A pass over stand-ins must be so many times cheaper than one over rows (randhie_visits, with
# 3.4 rows a group, is just so), and need no more values than this.
CHEAPER, MOST_VALUES = 3.0, 20_000_000
# Larger informations and scores leave the range in which equations can be solved.
LARGEST = 1e12
# Squares that every row has beside those of the quadratic, so that none is negative.
SPARE = 10.0

# Rounds on stand-ins

# What the fits of groups are shrunk to in each round, and how firmly: to the pooled fit (None),
# or to what the leader (0) or a maximum behind it says of them. Firm around the pooled fit the
# stand-in is steady, loose it tells more maxima apart (verbagg, k = 3; bank, k = 5); around good
# fits it finds the best of bank, k = 4, which one random start in fifty does.
GROUP_PLAN = ((None, 3.0), (0, 3.0), (None, 0.5), (0, 3.0), (1, 3.0), (None, 1.0), (2, 3.0))
# Share of the budget for stand-ins; what is left is for moves on the rows, without which 3 of 10
# seeds reach the best of fifty random starts on bank, k = 5, and with which 7 do.
GROUP_SHARE = 0.6
# Starts on the rows that challenge what stand-ins agreed on: these can be far from the rows.
GROUP_CHALLENGERS = 4
# Rounds before a search may settle: the third finds the better of two twins (verbagg, k = 3).
GROUP_ROUNDS = 3

# Cells of rows

# Cells of a view, and rows for each of them without which it does not pay (diamonds, k = 4:
# 2,048, 4,096 and 8,192 cells all find the best, the more the dearer).
CELLS, ROWS_OF_CELL = 4_096, 4
# What a residual deviation counts over that of a column, around the pooled fit, and a column over
# a residual deviation around others: on diamonds, k = 4, cells lose 36% of what a fit gains with 2,
# 64% with 1 and 72% with 3; around the fit itself 17% with 0.6.
STRETCH, OF_COLUMNS = 2.0, 0.6
# What the cells of each round follow: the leader, the pooled fit (None), a maximum behind it.
CELL_PLAN = (0, None, 1)
# Rounds that must fail, and the share of the budget for them; moves on the rows get the rest.
CELL_ROUNDS, CELL_SHARE = 2, 0.6
# Cells around the leader that lose more than this share of what another fit gains over one
# component tell little (diamonds: a fifth to a third).
MOST_LOST = 0.5
# By how much cells differ between rounds along each column.
JITTER = (0.8, 1.25)
# What it takes to cut rows into cells, in passes of one run.
CUTTING = 40

# Peeling

# Regressors from which on components are peeled off first: with fewer, other starts find as much
# as soon (`python -m benchmarks imbalanced`, as all numbers of this part).
PEEL_COLUMNS = 15
# Tuning of Cauchy's weights, in robust deviations, and steps of a robust fit and of EM after it:
# a start from all rows settles in 4 to 25 of the first.
PEEL_TUNING, PEEL_STEPS, PEEL_SHARING = 0.5, 30, 30
# A scale that changes by less than this share stands still.
PEEL_SETTLED = 0.003
# Deviation of a component that was found, as a share of that around one regression, at most.
PEEL_TIGHT = 0.1
# Variance of the even spread of other rows, over the component's, at least.
PEEL_WIDER = 4.0
# Deviations at which a row is none of a component's own, where there are few to tell.
PEEL_FAR = 6.0
# Starts of a component after the one from all rows, each from a share of these in a range; and
# multiplications that they may take.
PEEL_TRIES, PEEL_SOME, PEEL_WORK = 15, (0.3, 0.7), 5e9
# Deviations beyond which components are far from each other: those that share a segment, or hold
# rows of it by chance, are one to three apart.
PEEL_APART = 10.0
