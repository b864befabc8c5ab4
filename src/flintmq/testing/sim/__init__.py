"""The laboratory: power cuts and failing calls on a simulated disk, judged by the durability contract.

disk             is a disk in memory that knows what a power cut may leave
pages            keeps every version of a file's pages
names            keeps directories and the journal of changes
states           numbers the states that a power cut may leave
run              lives a store's life by a seed
explorer         stops a life at every call, recovers and compares
faults           fails every call of a case
long_run         runs cases one after another, resumed
crash            is the command line
contract         checks a store against the ledger of what was answered
consumer_ledger  checks what consumers were given and committed
slow_read        reads a store by the slow reference codecs alone
"""
