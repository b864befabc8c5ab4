"""Says what FlintMQ does with each of RocketMQ's keys, one line a key.

The engine, the commands and docs/operations/configuration.md use these lines.

ACTS: FlintMQ does what RocketMQ does. FIXED: FlintMQ has one behaviour and opens a store for writing only with the
value that asks for it. REFUSED: other values ask for something that FlintMQ does not have, such as a second replica;
with them a store is not opened for writing. NO_EFFECT: accepted and reported. Readers refuse a store because of a key
only where its files show another value (SHOWN).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple

from flintmq.config.keys import KEYS, StoreConfig
from flintmq.config.text import short
from flintmq.errors import ConfigError

MOST_BATCH: Final = (4 << 20) - 12
"""Bytes of the largest body that a slave of RocketMQ can read: its buffer of 4 MiB also takes the header."""


class Effect(enum.StrEnum):
    ACTS = "acts"
    FIXED = "fixed"
    REFUSED = "refused"
    NO_EFFECT = "no effect"


class KeyLine(NamedTuple):
    """The effect of one key.

    `only`: text of the one value with which a store is opened for writing; None if any value is accepted.
    """

    effect: Effect
    says: str  # sentence for people about what FlintMQ does
    only: str | None = None


def _lines(effect: Effect, text: str) -> dict[str, KeyLine]:
    """Parse lines `KEY [KEY ...]: effect`; `KEY=VALUE: effect` if only that value is accepted."""
    found = {}
    for row in filter(None, map(str.strip, text.splitlines())):
        keys, _, says = row.partition(": ")
        for word in keys.split():
            key, _, only = word.partition("=")
            found[key] = KeyLine(effect, says, only or None)
    return found


_ACTS = """
storePathCommitLog: directories of the log, with commas between them; made for a store that never held a message
readOnlyCommitLogStorePaths: further directories of the log, which are only read
mappedFileSizeCommitLog: bytes of a log file that is made
mappedFileSizeConsumeQueue: bytes of a queue file that is made
mapperFileSizeBatchConsumeQueue: bytes of a batch queue file that is made
mappedFileSizeConsumeQueueExt: bytes of a file of queue extensions that is made
maxHashSlotNum: slots of an index file
maxIndexNum: items of an index file
maxMessageSize: the largest body that is put
enabledAppendPropCRC: each record gets its own checksum
enableConsumeQueueExt: queue extensions are written
enableLmq enableMultiDispatch: a message also goes to the LMQs that its properties name (both keys together)
messageIndexEnable: keys are indexed
messageDelayLevel: the delay of each level
transactionTimeOut: how old a half message is when its sender is asked
transactionCheckInterval: how often senders of half messages are asked
transactionCheckMax: how often one is asked before the half message is given up
brokerRole: SLAVE refuses puts and delivers no delayed messages; puts of a SYNC_MASTER wait for inSyncReplicas
inSyncReplicas: how many must have a record before its put returns, this store included (SYNC_MASTER that listens)
slaveTimeout: how long such a put waits (FLUSH_SLAVE_TIMEOUT)
haSendHeartbeatInterval: silence after which a follower gets a heartbeat
haHousekeepingInterval: silence of a follower after which its line is closed
haTransferBatchSize: the most of the log that one frame to a follower has
haMaxGapNotInSync: how far a follower that is in sync may be behind
haFlowControlEnable maxHaTransferByteInSecond: the most of the log that a follower gets in a second (both keys together)
flushDiskType: whether a put waits for the disk
flushIntervalCommitLog flushCommitLogLeastPages flushCommitLogThoroughInterval: when the log is flushed (ASYNC_FLUSH)
flushIntervalConsumeQueue: how often queues are flushed and the checkpoint is written; each flush takes all new units
flushCommitLogTimed: false has each commit from the pool of buffers wake the flush
wakeFlushWhenPutMessage: each put wakes the flush (ASYNC_FLUSH)
wakeCommitWhenPutMessage: each put wakes the commit (with the pool of buffers)
commitIntervalCommitLog commitCommitLogLeastPages commitCommitLogThoroughInterval: when the pool goes to the file
syncFlushTimeout: how long a put waits for the disk
transientStorePoolEnable: new records are stored in memory first, and written to the file a little later
transientStorePoolSize: so many log files, and 32 MiB at most, is the memory of the pool
fastFailIfNoBufferInStorePool: a put that finds the pool full is refused; by default it writes a piece of it first
warmMapedFileEnable flushLeastPagesWhenWarmMapedFile: pages of a new log file are made before it is used
dataReadAheadEnable: false advises the system that a log is read at random
osPageCacheBusyTimeOutMills: puts are refused while one append takes longer
deleteWhen fileReservedTime: when and from what age on log files are deleted
diskMaxUsedSpaceRatio diskSpaceWarningLevelRatio diskSpaceCleanForciblyRatio: how full a disk may be
cleanFileForciblyEnable: a disk that is nearly full deletes files that are not old
cleanResourceInterval deleteFileBatchMax deleteCommitLogFilesInterval: how often, how many, how fast files are deleted
destroyMapedFileIntervalForcibly: how long a deleted file waits for its readers
maxMsgsNumBatch: the most that a query by key answers
maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInMemory: the most that one get answers
maxTransferBytesOnMessageInDisk maxTransferCountOnMessageInDisk: the same, for messages that are far behind
accessMessageInMemoryMaxRatio: percent of the memory within which a message is not far behind
maxFilterMessageSize: how many queue entries one get with a filter looks at, in bytes
flushDelayOffsetInterval: how often the offsets of delay levels are saved
timerWheelEnable: messages with a TIMER_ property wait for their time; false refuses them, and delivers none
timerPrecisionMs: moments of the timer: how late a message may be, and how verify and explain read the timer wheel
timerMaxDelaySec: how far ahead the time of a message may be
timerRollWindowSlot: moments after which a waiting message is stored once more, so that it outlives its log file
timerFlushIntervalMs: how often the progress of the timer is saved
mappedFileSizeTimerLog: bytes of a timer log file that is made
appendTopicForTimerDeleteKey: what names a recalled message, in a store like 5.4.0's
defaultTopicQueueNums: queues of a topic that is new
brokerIP1 listenPort: the store's own address in each record, and so in its offset message id
flushConsumerOffsetInterval: how often committed offsets are saved
"""

_FIXED = """
autoMessageVersionOnTopicLen=true: topics of more than 127 bytes are stored as version 2
checkCRCOnRecover=true: recovery compares the checksum of each body
forceVerifyPropCRC=false: records without a checksum of their own count, those with one are checked
readUnCommitted=false: consumers see what is in the file, not what the pool of buffers holds
indexFileWriteEnable=true: keys go into index files (messageIndexEnable=false writes none)
timerInterceptDelayLevel=false: messages with a delay level wait in SCHEDULE_TOPIC_XXXX
"""

_REFUSED = """
storeType=default: queues are files, and FlintMQ writes none in RocksDB
rocksdbCQDoubleWriteEnable=false: queues are files, and FlintMQ keeps no second copy in RocksDB
indexRocksDBEnable=false: keys are in index files, and FlintMQ writes none in RocksDB
enableDLegerCommitLog=false: FlintMQ writes no DLedger log
enableControllerMode=false: FlintMQ takes no role from a controller
duplicationEnable=false: RocketMQ ends its log at each record without DUP_INFO then, and nobody writes it
"""

_NO_EFFECT = """
storePathRootDir: the directory that is given is the store
storePathBrokerIdentity storePathEpochFile storePathDLedgerCommitLog: FlintMQ writes no such files
writeWithoutMmap sharedByteBufferNum: how RocketMQ writes; the bytes and what lasts are the same
putConsumeQueueDataByFileChannel: how RocketMQ writes queues; the bytes are the same
useReentrantLockWhenPutMessage useABSLock spinLockCollisionRetreatOptimalDegree: one lock of FlintMQ's own orders puts
topicQueueLockNum debugLockEnable: one lock of FlintMQ's own orders puts
putMessageTimeout: only syncFlushTimeout bounds how long a put waits
maxAsyncPutMessageRequests putMsgIndexHightWater: puts are held back by how far dispatch is behind
maxTopicLength: topics have at most 255 bytes
enableBuildConsumeQueueConcurrently batchDispatchRequestThreadPoolNums dispatchCqThreads: one thread dispatches
dispatchCqCacheNum dispatchFromSenderThread enableAsyncReput: one thread dispatches
maxLmqConsumeQueueNum enableLmqQuota: the number of LMQs has no limit
bitMapLengthConsumeQueueExt: extensions get no bitmap of filters; those that are there stay
searchBcqByCacheEnable maxConsumeQueueScan sampleCountThreshold sampleSteps: how RocketMQ looks things up in queues
messageIndexSafe: flintmq.mark says how far the index is on disk
indexFileReadEnable: index files are always read
recoverConcurrently recoverThreadPoolNums: FlintMQ has a recovery of its own
recheckReputOffsetFromCq maxRecoveryCommitlogFiles: FlintMQ has a recovery of its own
commitLogRecoverMaxNum enableAcceleratedRecovery checkCommitLogOffsetOnRecover: FlintMQ has a recovery of its own
enableLogConsumeQueueRepeatedlyBuildWhenRecover maxChecksumRange: FlintMQ has a recovery of its own
enableRunningFlagsInFlush: after a failed flush no put is taken
correctLogicMinOffsetSleepInterval: a queue's least offset is taken from the log at once
correctLogicMinOffsetForceInterval: a queue's least offset is taken from the log at once
deleteConsumeQueueFilesInterval redeleteHangedFileInterval maxBatchDeleteFilesNum: queue files follow the log's at once
logicalDiskSpaceCleanForciblyThreshold replicasPerDiskPartition: queue files follow the log's
diskFallRecorded disappearTimeAfterStart: statistics and pauses of RocketMQ
enableCleanExpiredOffset: offsets of deleted topics stay
accessMessageInMemoryHotRatio coldDataFlowControlEnable coldDataScanEnable: FlintMQ does not count cold reads
timerColdDataCheckIntervalMs: FlintMQ does not count cold reads
mappedFileSwapEnable cleanSwapedMapInterval: each reader maps files by itself
commitLogSwapMapInterval commitLogForceSwapMapInterval: each reader maps files by itself
commitLogSwapMapReserveFileNum: each reader maps files by itself
logicQueueSwapMapInterval logicQueueForceSwapMapInterval: each reader maps files by itself
logicQueueSwapMapReserveFileNum: each reader maps files by itself
defaultQueryMaxNum pullBatchMaxMessageCount: each call says how many it takes
travelCqFileNumWhenGetMessage: a get goes on over queue files by itself
offsetCheckInSlave: an offset out of bounds is always corrected
longPollingEnable shortPollingTimeMills: each get says how long it waits
enableBatchPush: FlintMQ pushes nothing
enableCompaction compactionMappedFileSize compactionCqMappedFileSize: FlintMQ compacts no topics
compactionScheduleInternal compactionThreadNum maxOffsetMapSize: FlintMQ compacts no topics
enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit: delayed messages are delivered one by one
scheduleAsyncDeliverMaxResendNum2Blocked enableScheduleMessageStats: delayed messages are delivered one by one
timerStopEnqueue timerCongestNumEachSlot: the timer takes each message, as long as timerWheelEnable
timerEnableRetryUntilSuccess timerSkipUnknownError: a timed message is put until it is stored
timerWheelSnapshotFlush timerWheelSnapshotIntervalMs: FlintMQ writes the timer log, from which the wheel follows
timerEnableCheckMetrics timerMetricSmallThreshold timerProgressLogIntervalMs: statistics of RocketMQ
timerGetMessageThreadNum timerPutMessageThreadNum: one thread delivers timed messages
timerRecallToTimeWheelEnable timerRecallToTimelineEnable: FlintMQ has no timers in RocksDB
timerReputServiceCorePoolSize timerReputServiceMaxPoolSize: FlintMQ has no timers in RocksDB
timerReputServiceQueueCapacity: FlintMQ has no timers in RocksDB
timerRocksDBEnable timerRocksDBPrecisionMs: FlintMQ has no timers in RocksDB
timerRocksDBRollIntervalHours timerRocksDBRollMaxTps: FlintMQ has no timers in RocksDB
timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps: FlintMQ has no timers in RocksDB
transRocksDBEnable transWriteOriginTransHalfEnable: transactions are not in RocksDB
transactionOpMsgMaxSize transactionOpBatchInterval: the end of a transaction is written at once
haListenPort: where followers come is an argument (ha_listen), as no port may be open that nobody asked for
haMasterAddress: whom to follow is an argument
haMaxTimeSlaveNotCatchup totalReplicas minInSyncReplicas: they belong to a controller, from which FlintMQ takes no role
allAckInSyncStateSet enableAutoInSyncReplicas: they belong to a controller, from which FlintMQ takes no role
syncFromLastFile asyncLearner maxSlaveResendLength: they belong to a controller, from which FlintMQ takes no role
enableSlaveActingMaster syncMasterFlushOffsetWhenStartup: a slave never becomes a master by itself
dLegerGroup dLegerPeers dLegerSelfId preferredLeaderId: FlintMQ writes no DLedger log
combineAssignOffsetCQType combineCQEnableCheckSelf combineCQLoadingCQTypes: queues are files
combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType combineCQUseRocksdbForLmq: queues are files
useSeparateStorePathForRocksdbCQ iteratorWhenUseRocksdbConsumeQueue: queues are files
bottomMostCompressionTypeForConsumeQueueStore rocksdbCompressionType rocksdbFlushWalFrequency: FlintMQ writes no RocksDB
rocksdbWalFileRollingThreshold memTableFlushIntervalMs realTimePersistRocksDBConfig: FlintMQ writes no RocksDB
enableRocksDBLog cleanRocksDBDirtyCQIntervalMin: FlintMQ writes no RocksDB
statRocksDBCQIntervalSec maxRocksDBIndexQueryDays: FlintMQ writes no RocksDB
flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval: each flush of queues takes all new units
brokerId: only brokerRole decides whether puts are accepted
brokerClusterName brokerName: names are what RocketMQ's clients see; the store holds none
"""

_BYTES: Final = frozenset(map(str, range(256)))

SHOWN: Final = {
    "mappedFileSizeCommitLog": "the length of the files of `commitlog/`, or of the directories that keys name",
    "mappedFileSizeConsumeQueue": "the length of the files of `consumequeue/`",
    "mapperFileSizeBatchConsumeQueue": "the length of the files of `batchconsumequeue/`",
    "mappedFileSizeConsumeQueueExt": "the length of the files of `consumequeue_ext/`",
    "maxHashSlotNum": "the length of the files of `index/`, and where their items are",
    "maxIndexNum": "the length of the files of `index/`, and where their items are",
    "mappedFileSizeTimerLog": "the length of the files of `timerlog/`",
}
"""Key that describes bytes -> what shows its value; `store/layout/given_sizes.py` compares them at every door."""

SELF_DESCRIBED: Final = {
    "maxMessageSize": "each record says its size; the key bounds only what is put",
    "bitMapLengthConsumeQueueExt": "each extension says its size and that of its bitmap",
    "messageDelayLevel": "each delayed message says its level, and RocketMQ may change what a level means",
    "timerPrecisionMs": "only the places of slots and units of the timer show it, which `verify` checks",
    "compactionMappedFileSize": "FlintMQ reads no file of `compaction/`",
    "compactionCqMappedFileSize": "FlintMQ reads no file of `compaction/`",
}
"""Other keys that describe bytes -> why nobody compares them with the files."""

LINES: Final[dict[str, KeyLine]] = {
    **_lines(Effect.ACTS, _ACTS),
    **_lines(Effect.FIXED, _FIXED),
    **_lines(Effect.REFUSED, _REFUSED),
    **_lines(Effect.NO_EFFECT, _NO_EFFECT),
}
"""RocketMQ's name of a key -> what FlintMQ does with it."""


def without_effect(config: StoreConfig) -> list[str]:
    """Return the keys that somebody set and that have no effect in FlintMQ, sorted by name."""
    return sorted(key for key in config.given if LINES[key].effect is Effect.NO_EFFECT)


def not_kept(config: StoreConfig, *, listens: bool = False) -> Iterator[str]:
    """Yield one sentence for each key that FlintMQ would not honour if it wrote a store."""
    for key, line in LINES.items():
        value = text_of(config, key)
        if line.only is not None and value != line.only:
            yield f"{key}={short(value)[1:-1]}: {line.says}; set {key}={line.only}, or leave it out"
    address = config.broker_ip1.split(".")
    if len(address) != 4 or not all(part in _BYTES for part in address):
        yield (
            f"brokerIP1={short(config.broker_ip1)[1:-1]}: each record gets the store's address of IPv4, and names are "
            "not looked up; set brokerIP1 to such an address, or leave it out"
        )
    if listens and not 0 < config.ha_transfer_batch_size <= MOST_BATCH:
        yield (
            f"haTransferBatchSize={config.ha_transfer_batch_size}: no slave of RocketMQ can read such frames; set "
            f"1 to {MOST_BATCH}"
        )
    if config.broker_role == "SYNC_MASTER" and config.in_sync_replicas > 1 and not listens:
        yield (
            f"inSyncReplicas={config.in_sync_replicas}: the store does not listen for followers, so no put could wait "
            "for them; set inSyncReplicas=1, or brokerRole=ASYNC_MASTER, or give ha_listen"
        )


def refuse_to_write(config: StoreConfig, *, listens: bool = False) -> None:
    """Raise ConfigError if FlintMQ would not honour this configuration when it writes a store."""
    for says in not_kept(config, listens=listens):
        raise ConfigError(says)


def text_of(config: StoreConfig, key: str) -> str:
    value = getattr(config, KEYS[key])
    return str(value).lower() if isinstance(value, bool) else str(value)
