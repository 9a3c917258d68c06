#!/usr/bin/env python3
"""The fault harness: real processes, a random fault in each round, and four invariants after it.
See README.md.

tests/faults/run.py --prefix DIR [--ucx LIBDIR] [--rounds N] [--seed S] [--only SCENARIO ...]
[--replay ROUND]
"""

import argparse
import atexit
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import clean_environment
import scenarios
from actors import WATCHDOG, Field, KnownAbort, Violation
from network import Hosts, Network, Unavailable
from rounds import FifoStopped, Pool, Round, Unheard

HERE = Path(__file__).resolve().parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", required=True, type=Path, help="where the library is installed")
    parser.add_argument(
        "--build", type=Path, help="folder for the actor's build; a temporary one otherwise"
    )
    parser.add_argument("--built", action="store_true", help="the actor is built there already")
    parser.add_argument(
        "--ucx",
        type=Path,
        metavar="LIBDIR",
        help="folder with the libraries of another UCX than the system's",
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", default=None)
    parser.add_argument(
        "--only",
        action="append",
        metavar="SCENARIO",
        help="only this scenario; may be given several times",
    )
    parser.add_argument(
        "--replay", type=int, action="append", metavar="ROUND", help="only this round of the seed"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    parser.add_argument("--logs", type=Path, help="keep the processes' output here")
    parser.add_argument(
        "--watchdog",
        type=float,
        default=WATCHDOG,
        help="seconds after which a process counts as hanging",
    )
    return parser.parse_args()


def build(options, folder):
    if options.built:
        return folder / "actor"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    with open(log, "w", encoding="utf-8") as output:
        # Without the results of an earlier run with another prefix.
        configure = [
            "cmake",
            "-Uucxx_rs_DIR",
            "-S",
            HERE,
            "-B",
            folder,
            f"-DCMAKE_PREFIX_PATH={options.prefix.resolve()}",
        ]
        for command in (configure, ["cmake", "--build", folder]):
            if (
                subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT, check=False
                ).returncode
                != 0
            ):
                sys.exit(log.read_text(encoding="utf-8"))
    return folder / "actor"


def environment(options):
    libraries = {"LD_LIBRARY_PATH": str(options.ucx.resolve())} if options.ucx else {}
    return clean_environment.environment(**libraries)


def link(field):
    """Two namespaces with a path for UCX between them, or None with the reason printed."""
    try:
        network = Network()
    except Unavailable as why:
        print(f"LEFT OUT: cut_link, hub_cut_link: no network namespaces here ({why})")
        return None
    atexit.register(network.close)
    near, far = (
        field.start(f"probe-{side}", "link", network.prefix(side)) for side in network.SIDES
    )
    refused = near.result(token=near.send("ep", {"ep": 1, "address": far.address})).get("failed")
    field.clear()
    if refused:
        print(
            f"LEFT OUT: cut_link, hub_cut_link: this UCX finds no way between two namespaces ({refused})"
        )
        return None
    return network


def hosts(field, seed):
    """Three namespaces on a wire, or None with the reason printed."""
    try:
        network = Hosts(seed)
    except Unavailable as why:
        print(f"LEFT OUT: window_*, hub_wire: no network namespaces on a wire here ({why})")
        return None
    atexit.register(network.close)
    one, other = (
        field.start(f"probe-{place}", "hosts", network.prefix(place))
        for place in network.PLACES[:2]
    )
    refused = one.result(token=one.send("ep", {"ep": 1, "address": other.address})).get("failed")
    field.clear()
    if refused:
        print(f"LEFT OUT: window_*, hub_wire: this UCX finds no way over a wire ({refused})")
        return None
    return network


class Summary:
    def __init__(self):
        self.rounds = Counter()
        self.violated = Counter()
        self.known = Counter()
        self.worst = defaultdict(dict)

    def take(self, name, played):
        self.rounds[name] += 1
        self.violated[name] += bool(played.violations)
        for known in played.known:
            self.known[known] += 1
        for figure, seconds in played.figures.items():
            self.worst[name][figure] = max(seconds, self.worst[name].get(figure, 0))

    def show(self, pools):
        print("summary: scenario, rounds, rounds with violations, worst figures in seconds")
        for name in sorted(self.rounds):
            worst = " ".join(
                f"{figure}={seconds:.2f}" for figure, seconds in sorted(self.worst[name].items())
            )
            print(f"  {name:24} {self.rounds[name]:4} {self.violated[name]:4}  {worst}")
        for known, count in sorted(self.known.items()):
            print(f"  known, UCX's own: {known}: {count}")
        for pool in pools.values():
            for actor in pool.actors:
                account = actor.history.account()
                if account:
                    print(
                        f"  {actor.name}: after {len(actor.history.seen)} rounds (growth for each new process): {account}"
                    )
        print(f"{self.rounds.total()} rounds, {self.violated.total()} with violations", flush=True)

    def ended_by_ucx_too_often(self):
        """More than three processes plus one in ten rounds: something in UCX has changed."""
        ended = sum(
            count
            for known, count in self.known.items()
            if known.startswith(("UCX abort", "UCX crash"))
        )
        if ended <= 3 + self.rounds.total() // 10:
            return False
        print(f"ended by UCX: {ended}, in {self.rounds.total()} rounds")
        return True


def play(field, pools, number, seed, options):
    """Runs one round; never raises because of a fault."""
    this = Round(field, pools, number, seed, options)
    # Missing scenarios elsewhere do not change most rounds.
    name = next(
        name
        for name in this.random.sample(sorted(scenarios.every()), len(scenarios.every()))
        if name in options.scenarios
    )
    spoilt = True
    try:
        options.scenarios[name](this)
        this.afterwards()
        spoilt = False
    except Violation as violation:
        this.fail(violation.invariant, str(violation))
    except KnownAbort as known:
        this.known.append(known.label())
    except FifoStopped as stopped:
        this.known.append("UCX FIFO")
        this.parameters["stopped"] = str(stopped)
    except Unheard as unheard:
        this.known.append("UCX cuts a message: the peer does not learn of the end")
        this.parameters["unheard"] = str(unheard)
    except Exception:  # pylint: disable=broad-except
        this.fail("harness", traceback.format_exc())
    this.finish()
    if spoilt or this.violations or any(actor.ended or actor.kept for actor in this.survivors):
        for pool in pools.values():
            if any(actor in pool.actors for actor in this.survivors):
                pool.retire()
    return name, this


def main():
    options = arguments()
    if options.list:
        for name, function in sorted(scenarios.every().items()):
            print(f"{name:24} {function.__doc__.splitlines()[0]}")
        return 0
    seed = options.seed or secrets.token_hex(4)
    folder = Path(tempfile.mkdtemp(prefix="ucxx-rs-faults-"))
    program = build(options, options.build or folder)
    logs = options.logs or folder
    logs.mkdir(parents=True, exist_ok=True)
    field = Field(program, environment(options), logs, options.watchdog)
    probe = field.start("probe", "default")
    field.ucx = probe.call("version")["ucx"]
    field.remove(probe)
    network = link(field)
    options.link = network is not None
    wire = hosts(field, seed)
    options.hosts = wire is not None
    options.scenarios = scenarios.available(options)
    if options.only:
        unknown = set(options.only) - set(options.scenarios)
        if unknown:
            sys.exit(
                f"no scenario {', '.join(unknown)}; there are: {', '.join(sorted(options.scenarios))}"
            )
        options.scenarios = {name: options.scenarios[name] for name in options.only}
    print(
        f"seed {seed}, UCX {field.ucx}, scenarios: {', '.join(sorted(options.scenarios))}",
        flush=True,
    )
    pools = {transports: Pool(field, transports) for transports in ("shm", "tcp", "default")}
    # Separate, so that the other pools are like most programs.
    pools.update(
        {f"{transports}-rma": Pool(field, transports, features="rma") for transports in list(pools)}
    )
    if network:
        pools["link"] = Pool(field, "link", network)
    if wire:
        # Two of one host and one of another; and three hosts.
        pools.update(
            {
                f"hosts-{''.join(places)}": Pool(field, "hosts", wire, places)
                for places in (("a", "a", "b"), ("a", "b", "c"))
            }
        )
    summary = Summary()
    try:
        for number in options.replay or range(options.rounds):
            began = time.monotonic()
            name, this = play(field, pools, number, seed, options)
            this.figures["round"] = time.monotonic() - began
            summary.take(name, this)
            if this.violations:
                only = "".join(f" --only {each}" for each in options.only or [])
                print(
                    f"VIOLATION in round {number}, {name}; again with: --seed {seed} --replay {number}{only}; {this.parameters}"
                )
                for invariant, text in this.violations[:6]:
                    print(f"  [{invariant}] {text[:3000]}")
                sys.stdout.flush()
            for known, times in Counter(this.known).items():
                print(
                    f"known: round {number} {name}: {known}, {times} times; {this.parameters}",
                    flush=True,
                )
    finally:
        summary.show(pools)
        field.clear()
        if options.logs is None and not summary.violated.total():
            shutil.rmtree(folder)
        else:
            print(f"logs in {logs}")
    return 1 if summary.violated.total() or summary.ended_by_ucx_too_often() else 0


if __name__ == "__main__":
    sys.exit(main())
