// Locks and unlocks with node-redlock, as its parent asks.
//
// The argument is the URL of Redis. benches/peers/README.md describes the commands. The settings
// are the library's defaults: 10 more attempts, and 200 ms with a jitter of 200 ms between them.

import { openSync, closeSync, readSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import Client from "ioredis";
import Redlock from "redlock";

// The lease of the library's examples.
const LEASE = 5_000;
const LONG_LEASE = 30_000;

const connect = () => new Redlock([new Client(process.argv[2])]);

const redlock = connect();
// Only contend uses more than the first.
let clients = [redlock];
let taken;

// Nanoseconds of the clock that all processes of the machine share.
const now = () => Number(process.hrtime.bigint());

// Repeats a call that gave up.
async function insist(name, all = { gaveUp: 0 }) {
  for (;;) {
    try {
      return await redlock.acquire([name], LEASE);
    } catch {
      all.gaveUp++;
    }
  }
}

const commands = {
  async pairs(name, pairs) {
    const times = [];
    for (let pair = 0; pair < Number(pairs); pair++) {
      const start = now();
      const lock = await redlock.acquire([name], LEASE);
      await lock.release();
      times.push(now() - start);
    }
    return times;
  },

  // The workers of contend share this number of clients.
  async clients(count) {
    const wanted = Math.max(Number(count), 1);
    while (clients.length < wanted) {
      clients.push(connect());
    }
    clients = clients.slice(0, wanted);
    return [];
  },

  // Hold and pause in microseconds.
  async contend(name, path, workers, hold, pause, start, end) {
    const load = {
      name,
      path,
      hold: Number(hold) / 1000,
      pause: Number(pause) / 1000,
      start: Number(start),
      end: Number(end),
    };
    const all = { holds: 0, inside: 0, gaveUp: 0, longest: 0, waits: new Map() };
    const startOne = (_, worker) => work(clients[worker % clients.length], load, all);
    await Promise.all(Array.from({ length: Number(workers) }, startOne));
    const waits = [...all.waits].map(([bucket, count]) => `${bucket}:${count}`);
    return [all.holds, all.inside, all.gaveUp, all.longest, ...waits];
  },

  // Each worker has a name of its own.
  async apart(prefix, workers, start, end) {
    const all = { holds: 0, inside: 0, gaveUp: 0, longest: 0, waits: new Map() };
    const work = (_, worker) =>
      pairsUntil(`${prefix}:${worker}`, Number(start), Number(end), all);
    const inside = await Promise.all(Array.from({ length: Number(workers) }, work));
    const ends = [Math.min(...inside), Math.max(...inside)];
    const times = [...all.waits].map(([bucket, count]) => `${bucket}:${count}`);
    return [all.holds, all.inside, all.gaveUp, all.longest, ...ends, ...times];
  },

  async take(name) {
    taken = await insist(name);
    return [];
  },

  async give(micros) {
    await sleep(Number(micros) / 1000);
    const unlocking = now();
    await taken.release();
    return [unlocking];
  },

  async enter(name) {
    const called = now();
    const lock = await insist(name);
    const granted = now();
    await lock.release();
    return [called, granted];
  },

  // The library extends the locks itself, 500 ms before a lease ends.
  async hold(prefix, locks) {
    for (let number = 0; number < Number(locks); number++) {
      await new Promise((held, failed) => {
        const untilTheEnd = () => {
          held();
          return new Promise(() => {});
        };
        redlock.using([`${prefix}:${number}`], LONG_LEASE, untilTheEnd).catch(failed);
      });
    }
    return [];
  },
};

// Locks and unlocks until the window ends. The first pair opens connections. Returns the pairs that
// ended inside.
async function pairsUntil(name, start, end, all) {
  let inside = 0;
  for (let isFirst = true; isFirst || now() < end; isFirst = false) {
    const called = now();
    await (await insist(name, all)).release();
    all.holds++;
    if (isFirst) {
      await sleep((start - now()) / 1e6);
      continue;
    }
    waited(all, now() - called);
    if (now() < end) {
      inside++;
      all.inside++;
    }
  }
  return inside;
}

async function work(redlock, load, all) {
  const file = openSync(load.path, "r+");
  await sleep((load.start - now()) / 1e6);
  while (now() < load.end) {
    const called = now();
    let lock;
    while (!lock && now() < load.end) {
      try {
        lock = await redlock.acquire([load.name], LEASE);
      } catch {
        all.gaveUp++;
      }
    }
    waited(all, now() - called);
    if (!lock) {
      break;
    }
    await section(file, load.hold);
    all.holds++;
    if (now() < load.end) {
      all.inside++;
    }
    await lock.release();
    if (load.pause > 0) {
      await sleep(load.pause);
    }
  }
  closeSync(file);
}

// Adds 1 to the counter in two steps, so that two holders of a lock lose an addition.
async function section(file, hold) {
  const bytes = Buffer.alloc(8);
  readSync(file, bytes, 0, 8, 0);
  if (hold > 0) {
    await sleep(hold);
  }
  bytes.writeBigUInt64LE(bytes.readBigUInt64LE() + 1n);
  writeSync(file, bytes, 0, 8, 0);
}

function waited(all, nanos) {
  // 32 buckets for each doubling.
  const bucket = Math.floor(Math.log2(Math.max(nanos, 1)) * 32);
  all.waits.set(bucket, (all.waits.get(bucket) ?? 0) + 1);
  all.longest = Math.max(all.longest, nanos);
}

// The parent closes the input when it ends.
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...words] = line.split(" ");
  try {
    console.log(["ok", ...(await commands[name](...words))].join(" "));
  } catch (error) {
    console.log(`error ${error}`.replaceAll("\n", " "));
  }
}
process.exit(0);
