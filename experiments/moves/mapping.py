"""What goes where: the house as data. `move.py` reads it; nothing else decides.

ROOMS       room -> what it is, and its files: new name -> (old module, one line of what it does). The lines become the
            table of contents in the room's `__init__.py`; a file of a room that is not in the table stops the script.
SPLITS      names that leave a module for another before anything moves (old module -> new one, in old names)
FILES       tests and other files that do not follow a module of the same name
FOLDERS     folders that move as a whole
EDITS       texts that have to be changed by hand besides: old -> new, each exactly once in its (new) file
"""

# ruff: noqa: E501

from __future__ import annotations

Room = tuple[str, dict[str, tuple[str, str]]]

# A module's old name is given without `flintmq.`; "" stands for a file that is where it was.
ROOMS: dict[str, Room] = {
    "config": (
        "RocketMQ's configuration keys: names, defaults, meanings, and the text forms that they come in.",
        {
            "keys": ("config", "declares each key with its default: StoreConfig"),
            "key_effects": ("config_keys", "says what FlintMQ does with each key"),
            "text": ("config_text", "reads broker.conf, KEY=VALUE words and lists of delay levels"),
            "s3": ("config_s3", "holds the keys `s3.*`: how object storage is reached"),
            "typed": ("config_typed", "types the settings of MessageStore, for editors; made by `docs`"),
            "docs": ("config_docs", "writes docs/operations/configuration.md"),
        },
    ),
    "kernels": (
        "",
        {
            "encode": ("kernels.append", "encodes messages into a commit log, record after record"),
            "encode_one": ("kernels.put", "encodes one message into a mapped log file"),
            "fast_append": (
                "kernels.appender",
                "appends a plain message in one call; keeps the state of appends",
            ),
            "append_columns": ("kernels.put_columns", "appends messages that come as columns"),
            "unique_keys": ("", "writes the numbers of unique keys"),
            "message": ("", "defines Message and PutResult"),
            "walk": ("", "validates records one after another, and finds the next one"),
            "derive": ("kernels.units", "makes queue units and index keys from records"),
            "group_units": ("kernels.runs", "groups units by queue into runs"),
            "index_insert": ("kernels.index", "inserts keys into slots and items of an index file"),
            "index_check": ("", "checks items and chains of an index file"),
            "record_parts": ("kernels.parts", "locates the parts of a validated record"),
            "property_shapes": ("kernels.shapes", "splits property strings that look like earlier ones"),
            "select": ("", "selects the records that a predicate asks for"),
            "gather": ("kernels.columns", "gathers columns of records into Arrow memory"),
            "gather_fill": ("kernels.fill", "fills single columns: numbers, times, hosts, text, properties"),
            "odd_text": ("kernels.texts", "finds text that is not UTF-8"),
            "fetch": ("", "checks and fetches the records of a queue for a get"),
            "handoff": ("", "hands work to a waiting thread without the GIL"),
            "buffers": ("kernels.buffers", "names the types of arrays that kernels take; no kernel itself"),
        },
    ),
    "storage": (
        "Files: the only door to the disk, to time and to randomness, and what is built on it.",
        {
            "filesystem": ("storage.effects", "opens the one door to files and time: Effects"),
            "store_url": ("storage.where", "tells what a path or URL means, and which door it has"),
            "lock": ("", "takes the store's lock as RocketMQ takes it"),
            "dispatch_lock": ("", "locks who writes queues and index beside the engine"),
            "overlay": ("", "shows the disk with planned changes"),
            "tree": ("", "walks a local directory tree completely, or stops"),
            "staging": ("", "makes a directory beside its place, and renames it in"),
            "mapped_file": ("", "maps one log file that is being written"),
            "mapped_file_queue": ("", "keeps the mapped files of a log in order"),
            "allocation": ("", "makes log files ahead of the writer"),
            "warm_up": ("", "makes a file's pages present before records come"),
            "touch_ahead": ("", "touches a map's pages ahead of its reader"),
            "transient_pool": ("", "lends locked buffers for new records"),
            "libc_memory": ("storage.memory", "calls libc about mapped memory without the GIL"),
        },
    ),
    "store": (
        "The store as RocketMQ means it: rooms are named as the directories and journeys that they serve.\n\n"
        "layout        where files are, how large, and the small ones\n"
        "commitlog     the log as bytes: its files, its records, its end\n"
        "dispatch      from a record to queue units and index keys\n"
        "consumequeue  queue files: read, written, served\n"
        "index         index files: read, written, recovered\n"
        "append        a message into the log, until it is durable\n"
        "read          messages by queue and offset, by key, in batches\n"
        "recovery      a store into order after any stop\n"
        "services      what runs beside puts: dispatch, topics, offsets, delay, retention\n"
        "consumer      a queue for an embedded user\n",
        {
            "message_store": ("", "is MessageStore: wires the rooms, starts and stops them in order"),
            "put_store": ("", "is the part of it that puts many, a batch, columns, and for an event loop"),
            "answers": ("", "is the part of it that answers by key, by time, through a view"),
            "view": ("", "is StoreView, what `open_store` gives: reads a store and never writes"),
            "view_source": ("", "gives a consumer one topic of a view"),
            "arguments": ("", "refuses arguments of a wrong type, by name"),
            "reentry": ("", "refuses a signal handler that calls the store amid a call"),
        },
    ),
    "store.layout": (
        "Where a store's files are, how large they are, and the small ones beside log, queues and index.",
        {
            "directories": ("store.geometry", "finds a store's directories; sizes and divides its files"),
            "queue_name": ("store.queue_name", "names a queue's directory, and lists those that are there"),
            "store_config": ("store.opening", "completes a configuration by what is on disk"),
            "small_files": ("", "writes abort, checkpoint and flintmq.mark"),
            "config_reader": ("store.config_files", "reads what a broker keeps in config/"),
            "config_writer": ("store.config_store", "replaces the files of config/ as a whole"),
        },
    ),
    "store.commitlog": (
        "The log as bytes: its files, the walk from record to record, and where it ends.",
        {
            "files": ("store.log_files", "lists the log's files as one sequence of bytes"),
            "walk": ("store.log", "walks records in pieces, and judges where it stops"),
            "sources": ("store.log_sources", "gives a walk its bytes: by pread or mapped"),
            "resync": ("store.search", "finds the next record after a place that holds none"),
            "late_begin": ("", "finds where to look for the end of a log that is far away"),
            "end_of_log": ("store.recovery", "judges where a log ends, by one table"),
            "records": ("", "reads one record again and checks it in full"),
            "report": ("", "collects the damage and notes of a walk"),
            "snapshot": ("", "takes a log as it is at one moment"),
            "own_log": ("store.log_tail", "reads the newest records of the own log through its maps"),
            "bulk_writer": ("store.log_writer", "writes log files of full size that nobody reads yet"),
            "predicate": ("", "says which records a scan gives"),
            "pushdown": ("store.narrow", "narrows a predicate by an engine's comparisons"),
        },
    ),
    "store.dispatch": (
        "From a record to queue units and index keys: one rule for the engine, rebuild and verify.",
        {
            "dispatcher": ("store.dispatch", "makes blocks of units and keys from pieces of a log"),
            "queue_positions": ("store.places", "tells at which places of which queues a record is"),
            "handover": ("store.handed_over", "hands rows put as columns to dispatch, unread"),
        },
    ),
    "store.consumequeue": (
        "Consume queues: plain, batch and light ones, and their extension.",
        {
            "reader": ("store.queues", "reads the units of a queue's files as they lie on disk"),
            "writer": ("store.queue_writer", "writes each unit at the place that its queue offset names"),
            "live_queue": ("store.running_queue", "serves one queue of a running store"),
            "live_queues": ("store.consume_queues", "loads, writes and serves all queues of a running store"),
            "known_ends": ("store.queue_list", "notes where each queue ended at a clean stop"),
        },
    ),
    "store.index": (
        "The key index: files that lead from the hash of a key to places in the log.",
        {
            "reader": ("store.index_files", "looks keys up in the index files"),
            "writer": ("store.index_writer", "writes items in log order, and a new file when one is full"),
            "builder": ("store.index_builder", "builds one index file in memory that nobody reads yet"),
            "index_service": ("store.key_index", "continues the index of a running store"),
            "durable_point": ("store.index_mark", "tells how far the index is on disk"),
        },
    ),
    "store.append": (
        "A message into the log, until it is durable.",
        {
            "service": ("store.puts", "runs one put: append, wait for the flush, count"),
            "checks": ("store.put_checks", "refuses a put before anything is touched"),
            "commit_log": ("", "appends to the log: queue offset, record, roll-over"),
            "batch": ("store.put_batch", "puts a batch, all or none"),
            "columns": ("store.put_columns", "puts Arrow columns of one topic"),
            "multi_queue": ("store.several", "puts messages that take several queue offsets"),
            "delayed_message": ("store.schedule", "stores a message with a delay level, and restores it when due"),
            "unique_keys": ("", "gives messages their UNIQ_KEY"),
            "slow_section": ("store.slow_part", "guards the part of a put that may hold the lock for long"),
            "flush": ("", "makes the log durable"),
            "group_commit": ("store.waiters", "answers puts that wait for the disk, a group at a time"),
            "async_puts": ("", "answers puts that an event loop waits for"),
            "pool_commit": ("store.commit_service", "brings records from the pool's buffers into files"),
            "disk_failure": ("store.poison", "remembers that the disk refused once"),
            "stats": ("", "counts what a running store did"),
        },
    ),
    "store.read": (
        "Messages by queue and offset, by key, in batches: units and items are hints, the log is the truth.",
        {
            "get": ("store.read", "answers a get of a running store with RocketMQ's statuses"),
            "get_batch": ("store.read_pieces", "gives the records of a queue where they lie in the log"),
            "queue_lookup": ("store.lookup", "finds messages by queue and offset in a store that is looked at"),
            "log_map": ("", "finds messages that no queue file covers"),
            "batch": ("store.queue_batch", "reads many messages of one queue at once"),
            "key_query": ("", "finds messages by key"),
        },
    ),
    "store.recovery": (
        "A store into order after any stop: the log's end, then queues and index.",
        {
            "recover": ("store.recover_store", "recovers a store: finds the end, cuts, makes the rest agree"),
            "derived": ("store.load_derived", "recovers queues and index from the log"),
            "torn_record": ("store.tail", "tells a torn record above the durable mark from a whole one"),
            "lost_log": ("", "tells a new store from one whose log is somewhere else"),
        },
    ),
    "store.services": (
        "What runs beside puts, on threads of its own.",
        {
            "dispatch_service": ("", "follows the log: writes units and items of each new record"),
            "housekeeping": ("store.keeping", "keeps topics and offsets, delivers what is due, deletes what is old"),
            "scheduler": ("store.upkeep", "calls slow steps at their intervals"),
            "topics": ("", "keeps config/topics.json"),
            "consumer_offsets": ("", "keeps config/consumerOffset.json"),
            "delay": ("", "delivers messages with a delay level"),
            "retention": ("", "deletes log files that are old, or whose space is needed"),
            "retention_rules": ("", "decides when which file goes"),
            "expire_derived": ("store.expiry", "lets queues and index begin where the log begins"),
        },
    ),
    "store.consumer": (
        "A queue for an embedded user: `store.consumer(group, topic)`.",
        {
            "consumer": ("store.consumer", "hands out messages and commits offsets"),
            "group": ("store.consumer_group", "divides a topic's queues among the consumers of a group"),
            "source": ("store.consumer_source", "reads one topic for a consumer"),
        },
    ),
    "forensics": (
        "Inspect, verify, rebuild, copy and salvage: lenient, offline. The engine in store/ never imports this.\n\n"
        "verify     everything in a store against everything else\n"
        "salvage    what is left of a damaged store, in a store that a broker starts on\n"
        "explain    one file, byte by byte\n",
        {
            "inspect": ("", "tells what a store holds, at one glance"),
            "rebuild": ("", "makes queues and index anew from the log"),
            "copy": ("", "copies a store, also a live one, whole or in part"),
            "retention_plan": ("forensics.retention", "tells what retention would delete"),
            "topic_tail": ("", "reads the end of a topic"),
        },
    ),
    "forensics.verify": (
        "Verify: every record, unit and item, and the small files around them.",
        {
            "run": ("forensics.verify", "runs a verification, whole or in parts"),
            "part": ("forensics.verify_part", "carries one part of a verification, so that another goes on"),
            "state_file": ("forensics.verify_state", "keeps the state between parts in a file"),
            "context": ("forensics.ground", "holds what derived files are judged by: bounds, damage, last stop"),
            "findings": ("forensics.findings", "collects defects and notes"),
            "codes": ("forensics.codes", "says what each code means, costs and asks for"),
            "repair_hints": ("forensics.mends", "names the command that mends each defect"),
            "log_check": ("forensics.verify_log", "checks the commit log's files and records"),
            "queue_set": ("forensics.verify_queue_set", "compares all queues of a store"),
            "queue_check": ("forensics.verify_queues", "compares one queue's units with the log's"),
            "queue_files": ("forensics.unit_files", "reads the raw units of one queue"),
            "queue_findings": ("forensics.unit_findings", "gathers what one queue shows into runs"),
            "index_check": ("forensics.verify_index", "compares index items with the log's keys"),
            "index_files": ("forensics.verify_index_files", "lists index files and their division"),
            "index_cursor": ("forensics.index_items", "reads one index file in the order of its making"),
            "timer_check": ("forensics.verify_timer", "checks the timer store"),
            "small_files": ("forensics.verify_config", "checks checkpoint, config/ and what else is in the root"),
        },
    ),
    "forensics.salvage": (
        "Salvage: into a new store, or in place.",
        {
            "into": ("forensics.salvage", "writes every record that counts into a new store"),
            "records": ("forensics.salvage_records", "makes one record anew for another place"),
            "queues": ("forensics.salvage_queues", "maps old queue offsets to new ones"),
            "config": ("forensics.salvage_config", "carries over what still holds of config/"),
            "in_place": ("forensics.salvage_in_place", "plans and makes the least change to a store"),
            "derived": ("forensics.salvage_derived", "replaces queues and index that do not hold"),
            "journal": ("forensics.salvage_journal", "journals changes, so that they can be finished or undone"),
            "filler": ("forensics.salvage_covers", "makes filler records over damaged ranges"),
            "misplaced": ("forensics.salvage_places", "finds records whose queue offset cannot be"),
            "holes": ("forensics.salvage_holes", "fills the queue offsets of lost messages"),
        },
    ),
    "forensics.explain": (
        "Explain one file of a store: every byte, as a field, a unit or a range, with its meaning.",
        {
            "run": ("", "opens a file, finds its kind, gives its lines"),
            "file_kinds": ("forensics.explain.kinds", "tells which kind of file it is"),
            "lines": ("", "makes a line of a field, a unit, or many units"),
            "source": ("", "holds the open file and one look at it"),
            "store_context": ("forensics.explain.around", "looks up the records that units lead to"),
            "unit_table": ("forensics.explain.table", "explains files of equal units"),
            "log": ("", "explains commit log files"),
            "record_fields": ("", "explains one record, field by field"),
            "queues": ("", "explains consume queues and their extension"),
            "index": ("", "explains index files"),
            "timer": ("", "explains the timer store"),
            "json_file": ("", "explains the JSON of config/"),
            "small": ("", "explains checkpoint, mark and other small files"),
        },
    ),
    "arrow": (
        "",
        {
            "schema": ("", "declares the columns as Arrow types, and narrows them"),
            "scan": ("", "scans a store's log: scan_arrow for users, batches() for Spark's tasks"),
            "batches": ("", "makes batches of pieces of the log"),
            "column_block": ("arrow.block", "holds the memory of one batch, filled by the kernel"),
            "column_layout": ("arrow.layout", "lays the columns of a batch out in its memory"),
            "ipc_template": ("arrow.envelope", "makes a batch of memory that is an Arrow IPC message, in one call"),
            "by_topic": ("arrow.apart", "gathers frequent topics in batches of their own"),
            "parallel": ("", "scans on several threads"),
            "queue_batch": ("", "reads messages of one queue as a batch"),
            "dataset": ("", "offers a store as a dataset for DuckDB and pyarrow"),
            "expression": ("", "reads comparisons out of an Arrow filter"),
            "polars": ("arrow.lazy", "offers a store as a Polars LazyFrame"),
            "sql": ("", "answers a question in SQL by DuckDB"),
            "s3": ("arrow.objects", "reads object storage through the door to files"),
            "remote_file": ("arrow.ranges", "reads one object in ranges of bounded size"),
        },
    ),
    "lake": (
        "What an export to files or tables needs no Spark for: plan, read, write, publish.\n\n"
        "Imports no pyspark, but for the schema of JSON bodies (`json_bodies`), which is Spark's.",
        {
            "options": ("spark.options", "checks the options of a read"),
            "offsets": ("spark.offsets", "reads queue offsets from JSON"),
            "asked": ("spark.asked", "compares what is asked for with what the store has"),
            "scan_bounds": ("spark.bounds", "finds where in the log single queues begin and end"),
            "splits": ("spark.splits", "cuts a log into ranges at record starts"),
            "scan": ("spark.scan", "plans a read, and scans one range of it into batches"),
            "explode": ("spark.explode", "makes rows of the messages of inner batches"),
            "columns": ("spark.jobs.shape", "shapes the columns of an export: properties, bodies"),
            "json_bodies": ("spark.jobs.bodies", "reads bodies as JSON of a schema"),
            "parquet": ("spark.jobs.parquet", "writes batches as Parquet files"),
            "compact": ("spark.jobs.combine", "combines small files up to a size"),
            "target": ("spark.jobs.target", "publishes an export's files with a manifest"),
            "delta": ("spark.jobs.delta", "publishes into a Delta table"),
            "checkpoint": ("spark.jobs.checkpoint", "keeps a copy of where an export is"),
            "export": ("spark.jobs.export_files", "goes on from the last export: begins, writes, publishes"),
        },
    ),
    "spark": (
        "",
        {
            "source": ("", "is the source and sink `flintmq`"),
            "session": ("", "makes a session that has the source"),
            "java": ("", "finds a Java that Spark can run on"),
            "schema": ("", "is the schema as Spark has it"),
            "pushdown": ("", "takes the filters that Spark offers"),
            "queue_view": ("", "offers the queues of a store as a table"),
            "failing": ("", "brings errors to Spark's user in one line"),
            "worker": ("spark.worker", "prepares a worker process"),
        },
    ),
    "spark.stream": (
        'Reading a store as a stream: `spark.readStream.format("flintmq")`.',
        {
            "reader": ("", "is what Spark calls, in the planner and in tasks"),
            "options": ("", "checks the options of a stream"),
            "queues": ("", "tells which queues the store has now"),
            "offset_index": ("spark.stream.places", "finds a queue's messages in the log by its units"),
            "anchor": ("", "keeps the last record that was read in the offset"),
            "admission": ("spark.stream.limits", "limits a micro-batch"),
            "plan": ("", "shares a micro-batch out to tasks"),
            "task_reads": ("spark.stream.pieces", "chooses what a task reads of its range"),
            "scan": ("", "reads the records of a task"),
            "unreached": ("", "finds messages that the log has and no queue leads to"),
        },
    ),
    "spark.sink": (
        "The sink `flintmq`: DataFrames as messages into a store, in batch and streaming, each batch once.",
        {
            "writer": ("", "is what Spark calls to write"),
            "options": ("", "checks the options of a sink"),
            "query": ("", "knows a streaming query by its checkpoint"),
            "rows": ("", "makes messages of rows, and refuses what cannot be stored"),
            "commit": ("", "puts staged rows in order, each batch once"),
            "listing": ("", "lists who has put what, and gives a stuck batch up"),
        },
    ),
    "spark.jobs": (
        "Jobs over ranges of a log. Tasks read and write files; the driver sees counts.\n\n"
        "export     messages to Parquet or Delta, once or as they come\n"
        "replay     messages into a store\n"
        "dispatch   queues and index of a log kept current\n"
        "stats      figures and a page about a store's traffic\n",
        {
            "rebuild": ("", "makes queues and index anew, as Spark tasks"),
            "verify": ("", "verifies a store, as Spark tasks"),
            "staged": ("", "keeps what the first stage of a job leaves for the second"),
            "tasks": ("spark.jobs.run", "runs a function over items as tasks, brings small answers back"),
        },
    ),
    "spark.jobs.export": (
        "Export: messages to Parquet or Delta, by Spark. What needs no Spark is in `flintmq.lake`.",
        {
            "job": ("spark.jobs.export", "exports what is new, once"),
            "stream": ("spark.jobs.export_stream", "exports micro-batch after micro-batch"),
        },
    ),
    "spark.jobs.replay": (
        "Replay: messages from a store, Delta or Parquet into a store.",
        {
            "job": ("spark.jobs.replay", "replays into a new store or one that is there"),
            "source": ("spark.jobs.replay_source", "cuts a source into chunks"),
            "plan": ("spark.jobs.replay_plan", "counts chunks, and gives each its place in the new log"),
            "rows": ("spark.jobs.replay_rows", "encodes rows as records"),
            "refusals": ("spark.jobs.refusals", "finds rows that a store would refuse"),
            "tasks": ("spark.jobs.replay_tasks", "runs a function over the rows of parts"),
            "bulk": ("spark.jobs.replay_bulk", "writes complete files of a new log"),
            "live": ("spark.jobs.replay_live", "puts in order into a store that is there"),
            "exactly_once": ("spark.jobs.once", "puts messages exactly once, whatever dies"),
        },
    ),
    "spark.jobs.dispatch": (
        "Dispatch: RocketMQ's reput pipeline as a job.",
        {
            "job": ("spark.jobs.dispatch", "keeps queues and index of a log current"),
            "preflight": ("spark.jobs.dispatch_start", "checks before a round, and clears what has to go"),
            "tasks": ("spark.jobs.dispatch_work", "places units and keys"),
            "index": ("spark.jobs.dispatch_index", "brings index files in"),
            "state": ("spark.jobs.dispatch_state", "keeps what is committed in one small file"),
        },
    ),
    "spark.jobs.stats": (
        "Statistics of a store: figures, and one page of HTML.",
        {
            "job": ("spark.jobs.stats", "counts a store's traffic"),
            "accumulate": ("spark.jobs.tally", "counts one task's batches into a summary"),
            "sketches": ("spark.jobs.sketches", "summarises a stream of values in bounded memory"),
            "statistics": ("spark.jobs.figures", "makes figures and a verdict of a summary"),
            "lag": ("spark.jobs.consumer_lag", "tells how far consumer groups are behind"),
            "page": ("spark.jobs.stats_page", "writes the page"),
            "svg": ("spark.jobs.svg", "draws plots as inline SVG"),
        },
    ),
    "cli": (
        "The command line: one file per command, an output that prints, and `app.main`, which owns the exit codes.",
        {
            "app": ("", "is the command `flintmq`: its commands, and what becomes of errors"),
            "commands": ("", "holds what all commands have in common besides options"),
            "options": ("", "holds arguments and options that several commands share"),
            "output": ("", "prints: a console for people, or JSON for programs"),
            "text": ("", "makes a value text for a terminal"),
            "signals": ("", "ends a command early at a signal"),
            "template": ("", "makes lines of the user's own shape"),
            "message_lines": ("cli.rows", "makes a line of a message"),
            "body_option": ("cli.bodies", "gives the body as stored or decompressed"),
            "sql_output": ("cli.answers", "prints rows of an answer in SQL"),
            "installation": ("forensics.doctor", "finds out what this installation can do"),
            "docs": ("", "writes docs/operations/cli.md"),
            "copy": ("", "flintmq copy"),
            "doctor": ("", "flintmq doctor"),
            "explain": ("", "flintmq explain"),
            "get": ("", "flintmq get"),
            "inspect": ("", "flintmq inspect"),
            "put": ("", "flintmq put"),
            "query": ("", "flintmq query"),
            "rebuild": ("", "flintmq rebuild"),
            "recover": ("", "flintmq recover"),
            "retention": ("", "flintmq retention"),
            "salvage": ("", "flintmq salvage"),
            "scan": ("", "flintmq scan"),
            "spark": ("", "flintmq spark: the group, verify and rebuild"),
            "spark_dispatch": ("", "flintmq spark dispatch"),
            "spark_export": ("", "flintmq spark export"),
            "spark_job": ("", "opens the Spark session of a command"),
            "spark_replay": ("", "flintmq spark replay"),
            "spark_sink": ("", "flintmq spark sink"),
            "spark_stats": ("", "flintmq spark stats"),
            "sql": ("", "flintmq sql"),
            "tail": ("", "flintmq tail"),
            "verify": ("", "flintmq verify"),
        },
    ),
    "testing": (
        "",
        {
            "write_store": ("", "writes store directories of any size and shape"),
            "messages": ("", "makes up messages from a seed"),
            "rows": ("", "holds messages as columns"),
            "damage": ("", "damages files as disks, crashes and people do"),
            "strategies": ("", "offers hypothesis strategies"),
            "pytest_plugin": ("", "offers fixtures to pytest"),
            "smoke": ("", "tries an installed FlintMQ"),
            "orders": ("", "takes orders, for the tutorial and the demo"),
        },
    ),
    "testing.sim": (
        "The laboratory: power cuts and failing calls on a simulated disk, judged by the durability contract.",
        {
            "disk": ("testing.sim_disk", "is a disk in memory that knows what a power cut may leave"),
            "pages": ("testing.sim_pages", "keeps every version of a file's pages"),
            "names": ("testing.sim_names", "keeps directories and the journal of changes"),
            "states": ("testing.sim_states", "numbers the states that a power cut may leave"),
            "run": ("testing.sim_run", "lives a store's life by a seed"),
            "explorer": ("testing.crash_explorer", "stops a life at every call, recovers and compares"),
            "faults": ("testing.sim_faults", "fails every call of a case"),
            "long_run": ("testing.sim_long", "runs cases one after another, resumed"),
            "crash": ("testing.crash", "is the command line"),
            "contract": ("testing.contract", "checks a store against the ledger of what was answered"),
            "consumer_ledger": ("testing.consumed", "checks what consumers were given and committed"),
            "slow_read": ("testing.slow_read", "reads a store by the slow reference codecs alone"),
        },
    ),
}

HEADS = {  # `__init__.py` that say more than a table: the text that the table comes after
    "kernels": "runs uncompiled (slower); the `.pxd` beside it gives the C types, the `.pyi` the Python ones.\n",
    "arrow": "in the one schema. Needs the extra `arrow`; the core never imports it.\n",
    "spark": "Importing this needs neither PySpark nor Java; using it does (`pip install flintmq[spark]`).\n",
    "testing": 'flip(path / "commitlog" / "00000000000000000000", position=1234)\n',
}

# What users may import of a room itself.
EXPORTS = {
    "config": """
from flintmq.config.keys import StoreConfig

__all__ = ["StoreConfig"]
"""
}

# Modules that leave the package.
OUTSIDE = {
    "flintmq.testing.demo": "examples.demo.__main__",
    "flintmq.testing.proof": "examples.demo.proof",
}

# Names that go from one module to another before anything moves: (from, to, names, docstring of a new module).
SPLITS: list[tuple[str, str, list[str], str]] = [
    (
        "flintmq.store.dispatch",
        "flintmq.store.queue_name",
        ["PLAIN", "BATCH", "Queue", "path_name"],
        '"""A queue as a directory: the name that its topic gives it, and the queues that are there."""',
    ),
    (
        "flintmq.store.queues",
        "flintmq.store.queue_name",
        ["QueueName", "queue_names", "each_queue_name", "_queue_ids", "is_path"],
        "",
    ),
    (
        "flintmq.store.index_writer",
        "flintmq.kernels.buffers",
        ["Numbers"],
        '"""Types of what kernels take and give."""',
    ),
    (
        "flintmq.spark.jobs.run",
        "flintmq.spark.worker",
        ["_frozen", "freeze_once"],
        '"""What a Spark worker does once in its life."""',
    ),
    (
        "flintmq.store.consumer_source",
        "flintmq.store.view_source",
        ["ViewSource"],
        '"""One topic of a read-only view, for a consumer that looks on."""',
    ),
    (
        "flintmq.spark.jobs.export",
        "flintmq.spark.jobs.export_files",
        [
            "SCAN_BYTES", "CHOICES", "Exported", "choice_of", "target_kind", "next_begin", "check_same", "only_adds",
            "shown", "is_same_log", "export_range", "write_files", "publish",
        ],
        '"""The parts of an export that need no Spark: its begin, what its tasks write, how it is published."""',
    ),
]  # fmt: skip

# Local names where the new one is taken in a file: (old path, new module) -> name.
LOCAL = {
    ("experiments/rebuild_bound.py", "flintmq.kernels.derive"): "derive_kernel",
    ("src/flintmq/forensics/verify.py", "flintmq.store.layout.directories"): "store_directories",
    ("src/flintmq/store/snapshot.py", "flintmq.store.layout.directories"): "store_directories",
    ("tests/arrow/test_apart.py", "flintmq.arrow.by_topic"): "module",
    ("tests/fuzz/targets.py", "flintmq.config.text"): "config_text",
    ("tests/hostile/guard.py", "flintmq.kernels.gather"): "gather_kernel",
    ("tests/hostile/guard.py", "flintmq.kernels.append_columns"): "columns_kernel",
    ("tests/hostile/guard.py", "flintmq.kernels.derive"): "derive_kernel",
    ("tests/store/test_consumer_source.py", "flintmq.store.consumer.source"): "consumer_source",
    ("tests/store/test_dispatch.py", "flintmq.store.dispatch.dispatcher"): "module",
    ("tests/store/test_load_derived.py", "flintmq.store.recovery.derived"): "module",
}

FOLDERS = {
    "tests/compat": "tests/compat",
    "tests/interop": "tests/interop",
    "tests/crash": "tests/robustness/crash",
    "tests/hostile": "tests/robustness/hostile",
    "tests/fuzz": "tests/robustness/fuzz",
    "tests/soak": "tests/robustness/soak",
    "tests/torture": "tests/robustness/torture",
    "tests/torture_spark": "tests/robustness/torture_spark",
    "tests/mutants": "tests/robustness/mutants",
    "tests/matrix": "tests/robustness/matrix",
    "docs/runbooks": "docs/operations/runbooks",
    "docs/format": "docs/internals/format",
    "src/flintmq/spark/jobs/templates": "src/flintmq/spark/jobs/stats/templates",
}

_SUPPORT = {
    "tests/class_archive.py": "class_archive.py",
    "tests/one_java.py": "one_java.py",
    "tests/order.py": "order.py",
    "tests/pages.py": "pages.py",
    "tests/scenes.py": "scenes.py",
    "tests/skips.py": "skips.py",
    "tests/turns.py": "turns.py",
    "tests/allowed_skips.txt": "allowed_skips.txt",
    "tests/objects/server.py": "object_server.py",
    "tests/store/crashed.py": "crashed.py",
    "tests/store/engine.py": "engine.py",
    "tests/store/interrupts.py": "interrupts.py",
    "tests/store/logs.py": "small_logs.py",
    "tests/store/seeded.py": "seeded.py",
    "tests/storage/faults.py": "faults.py",
    "tests/storage/unplugged.py": "unplugged.py",
    "tests/forensics/makers.py": "makers.py",
    "tests/forensics/salvaging.py": "salvaging.py",
    "tests/forensics/explain/looks.py": "looks.py",
    "tests/format/logs.py": "golden_logs.py",
    "tests/format/strategies.py": "layout_values.py",
    "tests/kernels/guard.py": "guarded_memory.py",
    "tests/kernels/plans.py": "gather_plans.py",
    "tests/kernels/records.py": "kernel_records.py",
    "tests/arrow/rows.py": "arrow_rows.py",
    "tests/spark/cluster.py": "spark_cluster.py",
    "tests/spark/reading.py": "spark_reading.py",
}
_STORE_TESTS = {  # tests of a journey, by the room that it ends in
    "append": "durability first_put lost_directory lost_lock refused_opens timer_refused waits",
    "recovery": "log_recovery recover_order recover_refused recovery_choices recovery_faults seeded",
    "index": "index_mark_lowered index_whole",
    "consumequeue": "queue_extension",
    "services": "external",
}
FILES = {
    **{old: f"tests/support/{new}" for old, new in _SUPPORT.items()},
    **{
        f"tests/store/test_{name}.py": f"tests/store/{room}/test_{name}.py"
        for room, names in _STORE_TESTS.items()
        for name in names.split()
    },
    "tests/objects/__init__.py": "",  # gone: an empty file of a folder that is gone
    "tests/test_one_java.py": "tests/support/test_one_java.py",
    "tests/test_order.py": "tests/support/test_order.py",
    "tests/test_pages.py": "tests/support/test_pages.py",
    "tests/test_skips.py": "tests/support/test_skips.py",
    "tests/test_turns.py": "tests/support/test_turns.py",
    "tests/test_config_keys.py": "tests/config/test_key_effects.py",
    "tests/storage/test_effects_calls.py": "tests/storage/test_filesystem_calls.py",
    "tests/spark/test_cluster.py": "tests/spark/test_cluster.py",
    "tests/spark/jobs/browser.py": "tests/spark/jobs/stats/browser.py",
    "tests/spark/jobs/dispatch_kills.py": "tests/spark/jobs/dispatch/kills.py",
    "tests/spark/jobs/dispatching.py": "tests/spark/jobs/dispatch/dispatching.py",
    "tests/spark/jobs/replaying.py": "tests/spark/jobs/replay/replaying.py",
    "tests/spark/jobs/test_dispatch_kills.py": "tests/spark/jobs/dispatch/test_kills.py",
    "tests/spark/jobs/test_delta_tables.py": "tests/spark/jobs/export/test_delta_tables.py",
    "tests/spark/jobs/test_bodies.py": "tests/spark/jobs/export/test_json_bodies.py",  # has a Spark session
    "tests/spark/jobs/test_export_dying.py": "tests/spark/jobs/export/test_dying.py",
    "tests/spark/jobs/test_export_options.py": "tests/spark/jobs/export/test_options.py",
    "tests/spark/jobs/test_export_readers.py": "tests/spark/jobs/export/test_readers.py",
    "tests/testing/test_demo.py": "tests/examples/test_demo.py",
    "tests/testing/test_proof.py": "tests/examples/test_proof.py",
    **{
        f"docs/{name}.md": f"docs/{folder}/{name}.md"
        for folder, names in {
            "guide": "first-hour tutorial engine python arrow sql testing",
            "operations": "verify salvage copy explain retention cli configuration versions",
            "internals": "durability reliability hostile-input upstream-defects bench",
        }.items()
        for name in names.split()
    },
    "docs/cli/json.md": "docs/operations/json.md",
}

# Tests that stay where they are though no module has their name: they are of the whole folder.
STAY = {
    "tests/store/test_acting_keys.py",
    "tests/store/test_view_follow.py",
    "tests/store/test_view_under_stress.py",
    "tests/storage/test_guarded.py",
    "tests/cli/test_places.py",
    "tests/spark/test_kafka_relation.py",
    "tests/spark/test_cluster.py",
    "tests/spark/stream/test_kafka_micro_batch.py",
    "tests/spark/stream/test_live_java.py",
    "tests/spark/stream/test_on_spark.py",
}

# Text that looks like a name that moved, and is another: never rewritten.
KEEP = (
    r'getLogger\("[\w.]+"\)',
    r"at_level\([^()]*\)",
    r"set_level\([^()]*\)",
)

# After everything else, in text that is not Python's own: what the new names are called by people.
SPOKEN = {"examples.demo.__main__": "examples.demo"}

# (new path, old text, new text): each old text stands exactly once in its file after everything has moved.
_SCORES = "tests/robustness/mutants/scores.py"
EDITS: list[tuple[str, str, str]] = [
    # mutmut's figures: a module is known by its whole path, its tests mirror it
    (
        _SCORES,
        """RECOVERY = (
    "recovery", "recover_store", "load_derived", "small_files", "tail", "queue_list", "keeping", "config_store",
)  # fmt: skip
""",
        """RECOVERY = (
    "commitlog/end_of_log", "recovery/recover", "recovery/derived", "layout/small_files", "recovery/torn_record",
    "consumequeue/known_ends", "services/housekeeping", "layout/config_writer",
)  # fmt: skip
""",
    ),
    (
        _SCORES,
        """    part, _, name = module.partition("/")
    return [f"tests/{part}/test_{name}.py",""",
        """    folder, _, name = module.rpartition("/")
    return [f"tests/{folder}/test_{name}.py",""",
    ),
    (
        "tests/forensics/verify/test_codes.py",
        """(ROOT / "src" / "flintmq" / "forensics").glob("*.py")""",
        """(ROOT / "src" / "flintmq" / "forensics").rglob("*.py")""",
    ),
    # the one import from append up to services: what a put needs of dispatch, as a type
    (
        "src/flintmq/store/append/service.py",
        "from flintmq.store.services.dispatch_service import DispatchService\n",
        "",
    ),
    ("src/flintmq/store/append/service.py", "from typing import Any\n", "from typing import Any, Protocol\n"),
    ("src/flintmq/store/append/service.py", "        dispatch: DispatchService,\n", "        dispatch: Follows,\n"),
    (
        "src/flintmq/store/append/service.py",
        "class Puts:\n",
        """class Follows(Protocol):
    \"\"\"Whatever takes records after the puts; store/services/dispatch_service.py does.

    Attributes:
        needs_wake: whether somebody who puts has to call `wake`.
    \"\"\"

    needs_wake: bool

    def wake(self, size: int = 0) -> None:
        \"\"\"Something was put: `size` bytes, if many.\"\"\"


class Puts:
""",
    ),
    # packaging
    ("pyproject.toml", '"flintmq.spark.jobs" = ["templates/*"]', '"flintmq.spark.jobs.stats" = ["templates/*"]'),
    ("MANIFEST.in", "recursive-include docs *\n", "recursive-include docs *\nrecursive-include examples *.py\n"),
    (".ci/dist", "./*.md bench docs pyproject.toml", "./*.md bench docs examples pyproject.toml"),
    ("Makefile", "find src tests bench -name", "find src tests bench examples -name"),
    ("Makefile", "$(BIN)/mypy --strict src\n", "$(BIN)/mypy --strict src examples\n"),
    (
        "pyproject.toml",
        'files = ["src"]\nmypy_path = ["src"]\n',
        'files = ["src", "examples"]\nmypy_path = ["src"]\nexplicit_package_bases = true  # examples are no package\n',
    ),
    (
        "tests/test_tidy.py",
        'FOLDERS = ("src", "tests", "bench", "docs", "experiments", ".ci")',
        'FOLDERS = ("src", "tests", "bench", "docs", "examples", "experiments", ".ci")',
    ),
    (
        "tests/test_tidy.py",
        '("src", "tests", "bench", "docs", "experiments") if',
        '("src", "tests", "bench", "docs", "examples", "experiments") if',
    ),
    (
        "pyproject.toml",
        '  "flintmq.spark",\n  "flintmq.forensics',
        '  "flintmq.spark",\n  "flintmq.lake",\n  "flintmq.forensics',
    ),
    (
        "pyproject.toml",
        """  "flintmq.config.docs",
  "flintmq.config.key_effects",
  "flintmq.config.keys : flintmq.config.s3 : flintmq.config.text",
""",
        '  "flintmq.config",\n',
    ),
    (
        "pyproject.toml",
        """[[tool.importlinter.contracts]]
name = "Arrow knows no Spark"
""",
        """[[tool.importlinter.contracts]]
name = "The rooms of the store point one way"
type = "layers"
containers = ["flintmq.store"]
exhaustive = true
layers = [
  "message_store",
  "put_store | answers",
  "view : view_source",
  "consumer",
  "recovery | services",
  "append | read",
  "consumequeue | index",
  "dispatch",
  "commitlog",
  "layout",
  "arguments | reentry",
]

[[tool.importlinter.contracts]]
name = "The rooms of forensics point one way"
type = "layers"
containers = ["flintmq.forensics"]
exhaustive = true
layers = [
  "copy",
  "salvage",
  "rebuild | verify | explain | inspect | retention_plan | topic_tail",
]

[[tool.importlinter.contracts]]
name = "The rooms of Spark point one way"
type = "layers"
containers = ["flintmq.spark"]
exhaustive = true
layers = [
  "session",
  "source",
  "queue_view | sink",
  "jobs",
  "stream",
  "failing | java | pushdown | schema | worker",
]

[[tool.importlinter.contracts]]
name = "Jobs know no other job but rebuild"
type = "layers"
containers = ["flintmq.spark.jobs"]
exhaustive = true
layers = [
  "dispatch | export | replay | stats",
  "rebuild | verify",
  "staged | tasks",
]

[[tool.importlinter.contracts]]
name = "Configuration points one way"
type = "layers"
containers = ["flintmq.config"]
exhaustive = true
layers = ["docs", "key_effects", "keys", "s3", "text | typed"]

[[tool.importlinter.contracts]]
name = "The toolbox for tests knows no laboratory"
type = "layers"
containers = ["flintmq.testing"]
exhaustive = true
layers = [
  "sim",
  "orders | pytest_plugin | smoke | strategies | write_store",
  "messages | damage",
  "rows",
]

[[tool.importlinter.contracts]]
name = "The lake needs no Spark"
type = "forbidden"
source_modules = ["flintmq.lake"]
forbidden_modules = ["pyspark", "typer", "rich"]
# The schema of JSON bodies is Spark's own; nothing else loads it, and not before such bodies are asked for.
ignore_imports = ["flintmq.lake.json_bodies -> pyspark", "flintmq.lake.columns -> pyspark"]

[[tool.importlinter.contracts]]
name = "Arrow knows no Spark"
""",
    ),
    # kernels by name
    (
        "tests/robustness/hostile/test_guard_pages.py",
        """ONLY_WRITE = {"put", "appender", "put_columns", "message", "unique_keys", "handoff"}""",
        """ONLY_WRITE = {"encode_one", "fast_append", "append_columns", "message", "unique_keys", "handoff"}""",
    ),
    (
        "tests/robustness/hostile/test_guard_pages.py",
        """    tried = {"fill", "shapes", "walk", "columns", "select", "units", "parts", "texts", "runs", "index", "index_check"}
    assert set(_select.state()) - ONLY_WRITE == tried | {"append", "fetch"}
""",
        """    tried = {"gather", "gather_fill", "property_shapes", "odd_text", "walk", "select", "record_parts"}
    tried |= {"derive", "group_units", "index_insert", "index_check", "encode", "fetch"}
    assert set(_select.state()) - ONLY_WRITE == tried
""",
    ),
    # which pages a change of the sources concerns
    (
        "tests/test_docs.py",
        """    Of the pages that start Spark, but for README.md, some run a day (tests/support/turns.py), and those that changed, or whose
    part of the sources did: docs/spark/export.md tells of src/flintmq/spark/jobs/export/job.py.
""",
        """    Of the pages that start Spark, but for README.md, some run a day (tests/support/turns.py), and those that changed,
    or whose part of the sources did: docs/spark/export.md tells of src/flintmq/spark/jobs/export/ and lake/export.py.
""",
    ),
    (
        "tests/test_docs.py",
        """f"src/flintmq/spark/{folder}{page.stem[:6]}" for folder in ("", "jobs/"))]""",
        """f"src/flintmq/{folder}{page.stem[:6]}" for folder in ("spark/", "spark/jobs/", "lake/"))]""",
    ),
    (
        "tests/robustness/torture_spark/test_loop.py",
        """of=["src/flintmq/spark/jobs/export", "src/flintmq/spark/jobs/delta", "src/flintmq/spark/stream/"]""",
        """of=["src/flintmq/spark/jobs/export/", "src/flintmq/lake/", "src/flintmq/spark/stream/"]""",
    ),
    # lines of help that names made too long
    (
        "tests/support/object_server.py",
        """    python -m tests.support.object_server    prints its port; `POST /_count` gives the requests since the last one and forgets
                                      them; ends when its standard input does
""",
        """    python -m tests.support.object_server    prints its port; `POST /_count` gives the requests since the last one and
                                             forgets them; ends when its standard input does
""",
    ),
    (
        "tests/support/pages.py",
        """    python -m tests.support.pages --write docs/operations/runbooks     # outputs anew; without pages: the runbooks and the first hour
    python -m tests.support.pages --fresh                   # compare, all of it in a new environment with FlintMQ installed
""",
        """    python -m tests.support.pages --write docs/operations/runbooks  # outputs anew; alone: the runbooks, the first hour
    python -m tests.support.pages --fresh                           # compare, in a new environment with FlintMQ installed
""",
    ),
    (
        "tests/support/spark_cluster.py",
        """    python -m tests.support.spark_cluster MASTER URL OUT KEYS    reads, exports and streams a store in tasks of MASTER, and
                                                         prints what came as JSON; KEYS are options as JSON
""",
        """    python -m tests.support.spark_cluster MASTER URL OUT KEYS    reads, exports and streams a store in tasks of MASTER,
                                                                 and prints what came as JSON; KEYS: options as JSON
""",
    ),
    (
        "tests/robustness/torture_spark/loop.py",
        "    python -m tests.robustness.torture_spark.loop --kills 300 [--seconds S] [--state build/torture-spark] [--report FILE]\n",
        "    python -m tests.robustness.torture_spark.loop --kills 300 [--seconds S] [--state FOLDER] [--report FILE]\n",
    ),
    # names of modules in prose, and names put together
    ("src/flintmq/lake/splits.py", "(`store.search.first_record`)", "(`resync.first_record`)"),
    ("src/flintmq/spark/sink/commit.py", "(`jobs/once.py`)", "(`jobs/replay/exactly_once.py`)"),
    ("src/flintmq/arrow/column_layout.py", "(see envelope)", "(see ipc_template)"),
    ("tests/spark/jobs/dispatch/test_kills.py", "`dispatch_kills` is the long", "`kills.py` is the long"),
    ("tests/forensics/verify/test_run.py", "looked at in test_verify_timer", "looked at in test_timer_check.py"),
    ("src/flintmq/config/keys.py", "`config_keys` says", "`key_effects` says"),
    ("src/flintmq/config/keys.py", "config_keys says", "key_effects says"),
    ("src/flintmq/kernels/gather_fill.py", "The loops of `columns`", "The loops of `gather`"),
    ("src/flintmq/kernels/gather_fill.pyi", "`columns` calls", "`gather` calls"),
    ("src/flintmq/kernels/record_parts.py", "what `columns` and `select`", "what `gather` and `select`"),
    ("src/flintmq/spark/jobs/dispatch/job.py", "(`dispatch_work`)", "(`tasks`)"),
    ("src/flintmq/spark/jobs/dispatch/job.py", "(`dispatch_state`)", "(`state`)"),
    ("src/flintmq/spark/jobs/dispatch/job.py", "(`dispatch_start`)", "(`preflight`)"),
    ("src/flintmq/spark/jobs/staged.py", "store.dispatch.Queue", "store.layout.queue_name.Queue"),
    ("src/flintmq/store/append/flush.py", "(`waiters`)", "(`group_commit`)"),
    ("src/flintmq/store/recovery/lost_log.py", "the walk (`log`)", "the walk (`commitlog/walk`)"),
    ("src/flintmq/store/services/housekeeping.py", "`upkeep` calls", "`scheduler` calls"),
    ("src/flintmq/testing/sim/disk.py", "`sim_states` tells", "`states` tells"),
    ("src/flintmq/forensics/salvage/in_place.py", "(salvage_covers)", "(`filler.py`)"),
    ("src/flintmq/forensics/salvage/in_place.py", "(salvage_journal)", "(`journal.py`)"),
    ("src/flintmq/forensics/salvage/into.py", "(salvage_records)", "(`records.py`)"),
    ("src/flintmq/forensics/salvage/into.py", "(salvage_config)", "(`config.py`)"),
    ("src/flintmq/forensics/verify/run.py", "(verify_queues, verify_index)", "(`queue_check.py`, `index_check.py`)"),
    (
        "tests/cli/test_spark.py",
        '("export.export", "export_stream.export_stream", "rebuild.rebuild", "verify.verify")',
        '("export.job.export", "export.stream.export_stream", "rebuild.rebuild", "verify.verify")',
    ),
    (
        "tests/robustness/matrix/spark_cells.py",
        """    module = import_module(f"flintmq.spark.jobs.{name}")
""",
        """    places = {"export_stream": "export.stream", "rebuild": "rebuild", "verify": "verify"}
    module = import_module(f"flintmq.spark.jobs.{places.get(name, f'{name}.job')}")
""",
    ),
    # the map
    (
        "ARCHITECTURE.md",
        "Imports point one way: `format` <- `kernels` <- `storage` <- `store` <- {`forensics`, `arrow`} <- `spark` <- "
        "`cli`; `testing` may import all. `make imports` checks it. Rows below are in that order.",
        "Imports point one way: `format` <- `kernels` <- `storage` <- `store` <- {`forensics`, `arrow`} <- `lake` <- "
        "`spark` <- `cli`; `testing` may import all. `make imports` checks it, and the order of the rooms in `store`, "
        "`forensics`, `spark` and its jobs (`pyproject.toml`). Rows below are in that order. Each room's `__init__.py` "
        "has a line for each of its files.",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/config/keys.py` |...",
        "| `src/flintmq/config/` | RocketMQ's configuration keys, their defaults and meanings (`keys`, `s3`); broker.conf "
        "(`text`); what each key does here (`key_effects`), and its page and types for editors (`docs`, `typed`) | open a store |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/kernels/` |...",
        "| `src/flintmq/kernels/` | hot loops over plain buffers in Cython's pure-Python mode, named by what they do: "
        "`walk`, `derive` (units and keys), `gather` (Arrow), `encode`, `fast_append` (the fast put and the state of the "
        "append side) and so on. `crc.h` is the one C header, `_plain.py` its twin, `_select.py` chooses compiled or "
        "source | know objects or files |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/storage/` |...",
        "| `src/flintmq/storage/` | `filesystem`: the only door to files and time (`Effects`); `store_url`: what a path or "
        "URL means, and which door it has; locks, an overlay of planned changes, and the mapped files of a log that is "
        "being written, made ahead of their writer | know what bytes mean |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/store/` |...",
        "| `src/flintmq/store/` | the store as RocketMQ means it, in rooms, each importing those before it: `layout/` (where "
        "files are, and the small ones), `commitlog/` (the log as bytes: walk, resync, end of log, snapshot), `dispatch/` "
        "(what a record gives: units and keys), `consumequeue/` and `index/` (their files: read, written, served), "
        "`append/` (a message into the log, until it is durable), `read/` (by queue and offset, by key), `recovery/` (after "
        "any stop), `services/` (what runs beside puts: dispatch, topics, offsets, delay, retention), `consumer/`. "
        "`message_store` wires them, with `put_store` and `answers`; `view` is what `open_store` gives | print; import "
        "pyarrow |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/forensics/` |...",
        "| `src/flintmq/forensics/` | functions that return values: inspect, rebuild, `copy` (of live stores), `topic_tail`, "
        "`retention_plan` (what would be deleted); `verify/` (one module per kind of file; `part` carries all of a run, so "
        "that another goes on; `codes` says what each finding means, `repair_hints` which command mends it); `salvage/` "
        "(`into` a new store, or `in_place` with a `journal` that does and undoes it); `explain/` (one file, byte by "
        "byte). The engine never imports it | print |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/arrow/` |...",
        "| `src/flintmq/arrow/` | log bytes -> record batches in the one schema: `scan` and `queue_batch` (what users call), "
        "`batches`, `column_block`, `parallel` (threads); `dataset`, `expression` and `polars` let DuckDB and Polars ask "
        "for columns and rows, `sql` is DuckDB over it; `s3` is the door to object storage, `remote_file` one object of it "
        "| know Spark |\n"
        "| `src/flintmq/lake/` | what an export needs no Spark for: the plan of a read (`scan`, `splits`), its rows as "
        "Parquet files, the directory or Delta table that they go to (`target`, `delta`) | import pyspark (but for the "
        "schema of JSON bodies) |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/spark/` |...",
        "| `src/flintmq/spark/` | data source, session, finding Java; `stream/`: micro-batches (`reader` is what Spark calls); "
        "`sink/` (`rows` judges, `commit` puts, `listing` shows it and gives up); `jobs/`: rebuild, verify, `export/`, "
        "`replay/` (`exactly_once` is the sink's too), `dispatch/` (keeps queues and index current), `stats/` (`accumulate` "
        "counts, `statistics` says, `page` draws by `templates/`) | loop over messages in Python |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `src/flintmq/testing/` |...",
        "| `src/flintmq/testing/` | ships with the package: `write_store`, damage, hypothesis strategies, `pytest_plugin` "
        "(fixtures for users), `orders` (an engine that takes orders, for the tutorial); `sim/`: the laboratory: the "
        "durability `contract` (with `slow_read`), and power cuts on a simulated disk | |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `tests/` | mirrors...",
        "| `tests/` | mirrors `src/flintmq/`; `support/` what tests share (`pages` and `scenes`: the examples of the docs and "
        "the damaged stores that they show); `compat/` golden stores by Java, `interop/oracle/` the Java program that "
        "wrote them; `robustness/`: `hostile/` and `fuzz/` bytes that want to do harm, `crash/` kills, power cuts and "
        "failing calls, `matrix/` real stores times every command, job and reader, `soak/` a store that lives long, "
        "`torture/` all long forms in one command, `mutants/` known faults as patches, each of which must make its tests "
        "fail; `test_tidy.py` style as a test, `test_install.py` the package without extras |\n"
        "| `examples/` | `demo/`: what `make demo` runs |\n",
    ),
    (
        "ARCHITECTURE.md",
        "| `docs/` |...",
        "| `docs/` | `guide/` (first hour, tutorial, Python), `operations/` (commands, runbooks), `spark/`, `internals/` "
        "(durability, reliability; `format/`: one page per kind of file, tables generated from the declarations) |\n",
    ),
    ("ARCHITECTURE.md", "lists the log's files (`log_files`: over", "lists the log's files (`files.py`: over"),
    ("ARCHITECTURE.md", "each task (`jobs/run.py`)", "each task (`spark/jobs/tasks.py`)"),
    ("ARCHITECTURE.md", "into `consume_queues` and `key_index`)", "into `live_queues` and `index_service`)"),
    ("tests/test_proofs.py", '(ROOT / "docs" / name)', '(ROOT / "docs" / "internals" / name)'),
    ("tests/format/test_docs.py", r"`(?:format|kernels|store)/\w+\.py`", r"`(?:format|kernels|store)/[\w/]+\.py`"),
    ("tests/format/test_docs.py", "(FOLDER.parents[1] /", "(FOLDER.parents[2] /"),
    # a name that left its module, by the module's name
    (
        "tests/store/consumer/test_source.py",
        """        source = consumer_source.ViewSource("T", view)
""",
        """        source = ViewSource("T", view)
""",
    ),
    (
        "tests/store/consumer/test_source.py",
        "from flintmq.store.view import open_store\n",
        "from flintmq.store.view import open_store\nfrom flintmq.store.view_source import ViewSource\n",
    ),
    # links that a program writes into the folder where they are
    ("src/flintmq/cli/docs.py", "[operations/json.md](operations/json.md).", "[json.md](json.md)."),
    ("docs/operations/cli.md", "[operations/json.md](json.md).", "[json.md](json.md)."),
    ("tests/cli/test_docs.py", '(tmp_path / "docs").mkdir()', '(tmp_path / "docs" / "operations").mkdir(parents=True)'),
    # a module's name in an annotation, hidden from the resolver by a property of that name
    (
        "tests/kernels/test_fast_append.py",
        "def appender(self) -> appender.Appender:",
        "def appender(self) -> fast_append.Appender:",
    ),
    # a table of contents stays one, and names the rooms inside
    (
        "src/flintmq/spark/__init__.py",
        "worker      prepares a worker process\n",
        "worker      prepares a worker process\n\n"
        "stream      reads a store as a stream\n"
        "sink        puts DataFrames into a store, each batch once\n"
        "jobs        goes over ranges of a log: rebuild, verify, export, replay, dispatch, stats\n",
    ),
    (
        "src/flintmq/testing/__init__.py",
        "orders         takes orders, for the tutorial and the demo\n",
        "orders         takes orders, for the tutorial and the demo\n\n"
        "sim            the laboratory: power cuts and failing calls on a simulated disk\n",
    ),
    (
        "src/flintmq/format/__init__.py",
        "config_json     the JSON dialects of config/\n",
        "config_json     the JSON dialects of config/\nconfig_names    what its files are for, and what their keys mean\n",
    ),
    (
        "tests/test_tidy.py",
        "def test_every_folder_is_on_the_map():\n",
        """def test_each_folder_lists_its_files():
    \"\"\"`__init__.py` is a table of contents: it names each file and each folder beside it.\"\"\"
    left_out = [
        path.relative_to(SOURCE).as_posix()
        for contents in SOURCE.glob("*/**/__init__.py")
        for path in [*contents.parent.glob("[!_]*.py"), *(inner.parent for inner in contents.parent.glob("*/__init__.py"))]
        if not re.search(rf"^(.*, )?{path.stem}[ ,]", contents.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert left_out == []


def test_every_folder_is_on_the_map():
""",
    ),
]
