"""Several brokers of a name server, followed side by side; the followers here are stand-ins."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.errors import DivergedError, ReplicationError, UsageError
from flintmq.ha.fleet import Event, Fleet
from tests.remoting.remoting_peer import Asked, RemotingPeer, reply
from tests.support.threads import within


class StandIn:
    """A follower that waits for its end; `ends` says how."""

    def __init__(self, store: str, address: str, broker: str, on_event: Callable[[Event], None]) -> None:
        self.store, self.address, self.broker, self.on_event = store, address, broker, on_event
        self.state, self.ends = "following", threading.Event()
        self.error: Exception | None = None
        self.stopped = False

    def run(self, stopping: threading.Event | None = None) -> None:
        assert stopping is not None
        self.on_event({"event": "opened"})
        while not stopping.wait(0.005) and not self.ends.is_set():
            pass
        self.stopped = stopping.is_set()
        if self.error is not None:
            self.on_event({"event": "refused", "reason": "diverged"})
            raise self.error


class World:
    """A name server, brokers by name, and what a fleet made of them."""

    def __init__(self) -> None:
        self.brokers: dict[str, tuple[str, int]] = {}  # name -> cluster, HA port
        self.refuses = set[str]()
        self.made: list[StandIn] = []
        self.events: list[Event] = []
        self.peers: dict[str, RemotingPeer] = {}
        self.there = True
        self.names = RemotingPeer(self.clusters)

    def add(self, name: str, ha_port: int, cluster: str = "C") -> None:
        """A broker comes, or is at another port."""
        self.peers.setdefault(name, RemotingPeer(lambda asked: self.ha_address(name, asked)))
        self.brokers[name] = (cluster, ha_port)  # last: the name server's thread lists what it finds here

    def ha_address(self, name: str, asked: Asked) -> bytes:
        """906."""
        if name in self.refuses:
            return reply(asked, code=16, remark="no")
        return reply(asked, fields={"masterHaAddress": f"127.0.0.1:{self.brokers[name][1]}"})

    def clusters(self, asked: Asked) -> bytes | None:
        """106."""
        listed = ",".join(
            f'"{name}":{{"brokerAddrs":{{0:"{self.peers[name].address}"}},"cluster":"{cluster}"}}'
            for name, (cluster, _) in self.brokers.items()
        )
        return reply(asked, f'{{"brokerAddrTable":{{{listed}}}}}'.encode()) if self.there else None

    def make(self, store: str, address: str, broker: str, on_event: Callable[[Event], None]) -> StandIn:
        self.made.append(StandIn(store, address, broker, on_event))
        return self.made[-1]

    def fleet(self, **rest: Any) -> Fleet:
        store = rest.pop("store", "/copies/{broker}")
        return Fleet([self.names.address], store, self.make, on_event=self.events.append, **rest)

    def close(self) -> None:
        for peer in (self.names, *self.peers.values()):
            peer.close()


@pytest.fixture
def world():  # type: ignore[no-untyped-def]
    made = World()
    yield made
    made.close()


class Running:
    """A fleet that runs in a thread."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.stopping = fleet, threading.Event()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        """Keep what ended it."""
        try:
            self.fleet.run(self.stopping)
        except Exception as error:
            self.error = error

    def end(self) -> Exception | None:
        """Stop it, and give its error."""
        self.stopping.set()
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.error


def test_each_broker_has_its_own_directory_address_and_events(world: World):
    world.add("a", 1001)
    world.add("b", 1002)
    running = Running(world.fleet())
    assert within(lambda: len(world.events) == 2)
    assert running.end() is None
    assert {(one.store, one.address, one.broker) for one in world.made} == {
        ("/copies/a", "127.0.0.1:1001", world.peers["a"].address),
        ("/copies/b", "127.0.0.1:1002", world.peers["b"].address),
    }
    assert sorted(event["broker"] for event in world.events) == ["a", "b"]
    assert all(one.stopped for one in world.made)


def test_cluster_and_names_choose(world: World):
    for name, cluster in (("a", "C"), ("b", "C"), ("c", "D")):
        world.add(name, 1001, cluster)
    fleet = world.fleet(cluster="C", brokers=["b", "c"])
    fleet.look()
    fleet.stop()
    assert [one.store for one in world.made] == ["/copies/b"]


def test_brokers_come_go_and_move(world: World):
    world.add("a", 1001)
    fleet = world.fleet()
    fleet.look()
    world.add("b", 1002)
    fleet.look()
    assert [one.address for one in world.made] == ["127.0.0.1:1001", "127.0.0.1:1002"]
    del world.brokers["a"]
    fleet.look()
    assert fleet.members["a"].runs, "its follower tries on by itself"
    world.add("a", 1003)
    fleet.look()
    assert len(world.made) == 2, "a follower that follows is left alone"
    world.made[0].state = "connecting"
    fleet.look()
    assert [one.address for one in world.made] == ["127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003"]
    assert world.made[0].stopped and world.made[2].store == "/copies/a"
    world.peers["b"].close()
    world.peers["b"] = RemotingPeer(lambda asked: world.ha_address("b", asked))  # another listenPort
    world.add("b", 1004)
    fleet.look()
    assert world.made[1].stopped and world.made[3].address == "127.0.0.1:1004"
    fleet.stop()


def test_a_refused_broker_is_reported_and_the_others_go_on(world: World):
    world.add("a", 1001)
    world.add("b", 1002)
    running = Running(world.fleet(every_s=0.05))
    assert within(lambda: len(world.made) == 2)
    world.made[0].error = DivergedError("diverged", "another past")
    world.made[0].ends.set()
    assert within(lambda: any(event["event"] == "refused" for event in world.events))
    asked = len(world.names.asked)
    assert within(lambda: len(world.names.asked) > asked + 2)
    assert running.thread.is_alive() and len(world.made) == 2, "not begun again at the same address"
    error = running.end()
    assert isinstance(error, DivergedError) and error.exit_code == 12
    assert {event["broker"] for event in world.events if event["event"] == "refused"} == {"a"}


def test_all_refused_is_the_end_at_once(world: World):
    world.add("a", 1001)
    running = Running(world.fleet())
    assert within(lambda: len(world.made) == 1)
    world.made[0].error = DivergedError("diverged", "another past")
    world.made[0].ends.set()
    running.thread.join(10)
    assert not running.thread.is_alive() and isinstance(running.error, DivergedError)


def test_a_refused_broker_is_tried_again_at_another_address(world: World):
    world.add("a", 1001)
    world.add("b", 1002)
    fleet = world.fleet()
    fleet.look()
    world.made[0].error = DivergedError("diverged", "another past")
    world.made[0].ends.set()
    assert within(lambda: not fleet.members["a"].runs)
    fleet.look()
    assert len(world.made) == 2
    world.add("a", 1009)
    fleet.look()
    fleet.stop()
    assert world.made[2].address == "127.0.0.1:1009" and fleet.members["a"].error is None


@pytest.mark.parametrize("name", ["..", "a/../../x", "/etc", "a\\\\b", ".x", ""])
def test_names_that_are_no_directories_are_refused(world: World, name: str):
    world.add(name, 1001)
    world.add("b", 1002)
    fleet = world.fleet()
    fleet.look()
    fleet.look()
    fleet.stop()
    assert [one.store for one in world.made] == ["/copies/b"]
    refused = [event for event in world.events if event["event"] == "refused"]
    assert len(refused) == 1 and refused[0]["reason"] == "config" and refused[0]["broker"] == name.replace("\\\\", "\\")


def test_a_broker_that_does_not_tell_its_port_is_refused(world: World):
    world.add("a", 1001)
    world.refuses.add("a")
    with pytest.raises(ReplicationError, match="906: refused with code 16: 'no'"):
        world.fleet().run(threading.Event())
    assert [event["event"] for event in world.events] == ["refused"]


def test_a_broker_that_is_not_there_yet_is_asked_again(world: World):
    world.add("a", 1001)
    world.peers["a"].close()
    running = Running(world.fleet(every_s=0.05))
    assert within(lambda: world.events != [])
    assert world.events == [{"event": "lost", "what": "broker", "reason": world.events[0]["reason"], "broker": "a"}]
    world.peers["a"] = RemotingPeer(lambda asked: world.ha_address("a", asked))
    assert within(lambda: len(world.made) == 1)
    assert running.end() is None


def test_a_name_server_that_goes_ends_nothing(world: World):
    world.add("a", 1001)
    running = Running(world.fleet(every_s=0.02))
    assert within(lambda: len(world.made) == 1)
    world.there = False
    assert within(lambda: any(event["event"] == "lost" for event in world.events))
    asked = len(world.names.lines)
    assert within(lambda: len(world.names.lines) > asked + 3)
    lost = [event for event in world.events if event["event"] == "lost"]
    assert len(lost) == 1 and "broker" not in lost[0], "reported once"
    world.there = True
    world.add("b", 1002)
    assert within(lambda: len(world.made) == 2)
    assert running.end() is None


def test_once_ends_when_all_have_ended(world: World):
    world.add("a", 1001)
    world.add("b", 1002)
    running = Running(world.fleet(once=True))
    assert within(lambda: len(world.made) == 2)
    for one in world.made:
        one.ends.set()
    running.thread.join(10)
    assert not running.thread.is_alive() and running.error is None


def test_once_without_brokers_is_wrong_use(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.ha.fleet.RETRY_S", 0.01)
    with pytest.raises(UsageError, match="no broker to follow"):
        world.fleet(once=True).run(threading.Event())
    assert len(world.names.asked) == 3


@pytest.mark.parametrize("why", ["is not there", "is busy", "has only slaves", "is not known"])
@pytest.mark.parametrize("others", [0, 1])
def test_once_fails_if_a_broker_was_never_copied(world: World, why: str, others: int, monkeypatch: pytest.MonkeyPatch):
    """Three looks, then the verdict; the others are copied whole."""
    monkeypatch.setattr("flintmq.ha.fleet.RETRY_S", 0.01)
    brokers = ["bad"] if why == "is not known" else []
    for name in ["good"] * others + (["bad"] if why != "is not known" else []):
        world.add(name, 1001)
        brokers.append(name)
    if why == "is not there":
        world.peers["bad"].close()
    elif why == "is busy":
        world.peers["bad"].answer = lambda asked: reply(asked, code=2, remark="busy")
    elif why == "has only slaves":
        addresses = f'"good":{{"brokerAddrs":{{0:"{world.peers["good"].address}"}},"cluster":"C"}},' if others else ""
        table = f'{{"brokerAddrTable":{{{addresses}"bad":{{"brokerAddrs":{{1:"h:1"}},"cluster":"C"}}}}}}'.encode()
        world.names.answer = lambda asked: reply(asked, table)
    running = Running(world.fleet(once=True, brokers=brokers))
    assert within(lambda: len(world.made) == others)
    for one in world.made:
        one.ends.set()
    running.thread.join(10)
    assert not running.thread.is_alive() and isinstance(running.error, UsageError)
    assert str(running.error).startswith("broker 'bad' was not copied: ")
    assert len(world.names.asked) == 3
    assert [event["what"] for event in world.events if event["event"] == "lost"] == ["broker"], "told of once"


def test_once_with_a_broker_that_comes_at_the_third_look(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.ha.fleet.RETRY_S", 0.01)
    world.add("a", 1001)
    answers = iter([None, None, 1])
    world.peers["a"].answer = lambda asked: world.ha_address("a", asked) if next(answers) else None
    running = Running(world.fleet(once=True))
    assert within(lambda: len(world.made) == 1)
    world.made[0].ends.set()
    running.thread.join(10)
    assert not running.thread.is_alive() and running.error is None


@pytest.mark.parametrize("chosen", [{"brokers": ["typo"]}, {"cluster": "typo"}])
def test_a_name_that_nothing_has_is_told_of_with_those_that_are_there(world: World, chosen: dict[str, Any]):
    world.add("a", 1001, "Orders")
    running = Running(world.fleet(every_s=0.02, **chosen))
    assert within(lambda: len(world.names.asked) > 5)
    there = "'Orders'" if "cluster" in chosen else "'a'"
    assert len(world.events) == 1 and world.events[0]["reason"].endswith(f"it knows {there}")
    assert running.end() is None


def test_a_broker_that_stays_away_is_told_of_again(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.ha.fleet.REMIND_S", 0.1)
    world.add("a", 1001)
    world.peers["a"].close()
    running = Running(world.fleet(every_s=0.02))
    assert within(lambda: len(world.events) == 3)
    assert {event["broker"] for event in world.events} == {"a"} and running.end() is None


def test_wrong_use(world: World):
    with pytest.raises(UsageError, match=r"\{broker\}"):
        world.fleet(store="/copies")
    with pytest.raises(UsageError, match="name server"):
        Fleet([], "/copies/{broker}", world.make)
