"""The laboratory: power cuts and failing calls on a simulated disk.

The durability contract judges what is left on the disk.

disk             is a disk in memory that computes the states after a power cut
pages            keeps every version of a file's pages
names            keeps directories and the journal of changes
states           numbers the states that a power cut may leave
run              runs a store's lives by a seed
cut_explorer     stops a run at every call, and has each state judged
explorer         recovers a store's states, and compares them with what was promised
faults           fails every call of a case
long_run         runs cases one after another, and resumes
pair_wire        is a line to a master, in memory
pair_run         runs the lives of a master and its follower by a seed
pair_explorer    recovers a follower's states, and follows on
pair_faults      fails each call of a follower's disk
pair_resync      resyncs copies that a master refused
pair_long_run    runs cases of pairs one after another
crash            is the command line
invariants       asserts what must always hold in a running store
tracebacks       formats tracebacks without a machine's paths
"""

from flintmq.store.reentry import simulates

simulates(__name__)
