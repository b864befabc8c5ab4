"""The web page over stores: `flintmq ui`. Pages are made on the server; none of them writes to a store.

Each page shows what a command gives, names that command, and has the command's `--json` with `?format=json`. So the
room is above the command line, which finds it by `hooks.py`.

server       listens, makes the token, ends at a signal
connection   a connection whose client has some seconds for its request
guard        refuses foreign hosts, origins and strangers; adds the headers against scripts
app          routes, threads, time limits, errors
asked        the values of a request, checked
page         what a page is made of, and its templates
stores       the stores that were named, opened once and looked at again
links        addresses of pages, and words of commands
rates        rates over time from a few samples, drawn
overview     all stores, one store, what needs attention, what retention deletes next
topics       topics, one topic, one queue
messages     one message, its body, its bytes explained
became       what became of one message: its row of `flintmq trace`
body_views   a body as JSON, text and hex
hex_dump     the bytes of a unit, each in the colour of its field
groups       consumer groups and their lag
waiting      what waits for its time or its transaction; dead letters
search       finds messages, and shows them as they are found
tail         new messages of a topic as they come
health       verify in the background, and its findings
export       a table of exports: what it holds, and what differs from the logs
background   work of several minutes, with progress and a stop
streaming    answers that go on, and end when their reader leaves
"""
