package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The commands of every kind of lock. The first two words are the kind and the name of the lock. */
final class Locks {
    private Locks() {}

    static void add(Map<String, Command> commands, RedissonClient redisson) {
        commands.put("lock", words -> {
            lock(redisson, words).lock();
            return "ok";
        });
        // WAIT LEASE, in milliseconds; the lease 0 is renewed.
        commands.put("trylock", words -> {
            long lease = Long.parseLong(words[3]);
            return lock(redisson, words)
                    .tryLock(Long.parseLong(words[2]), lease == 0 ? -1 : lease, MILLISECONDS);
        });
        commands.put("unlock", words -> {
            lock(redisson, words).unlock();
            return "ok";
        });
        commands.put("force", words -> lock(redisson, words).forceUnlock());
        commands.put("holds", words -> lock(redisson, words).getHoldCount());
        // COUNTER THREADS MILLISECONDS: the number of increments.
        commands.put("contend", words -> contend(redisson, words));
        // N: the median time of a lock and unlock, in nanoseconds.
        commands.put("pairs", words -> pairs(lock(redisson, words), Integer.parseInt(words[2])));
    }

    private static RLock lock(RedissonClient redisson, String[] words) {
        String name = words[1];
        return switch (words[0]) {
            case "plain" -> redisson.getLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            // NAME,NAME: acquired in this order.
            case "multi" -> redisson.getMultiLock(
                    Arrays.stream(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            default -> throw new IllegalArgumentException("no such kind: " + words[0]);
        };
    }

    private static long contend(RedissonClient redisson, String[] words) throws Exception {
        int threads = Integer.parseInt(words[3]);
        long end = System.nanoTime() + MILLISECONDS.toNanos(Long.parseLong(words[4]));
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Long>> counts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                counts.add(pool.submit(() -> increment(redisson, words, end)));
            }
            long sum = 0;
            for (Future<Long> count : counts) {
                sum += count.get();
            }
            return sum;
        } finally {
            pool.shutdown();
        }
    }

    /** Reads and writes the counter under the lock. */
    private static long increment(RedissonClient redisson, String[] words, long end) {
        RLock lock = lock(redisson, words);
        RBucket<String> counter = redisson.getBucket(words[2], StringCodec.INSTANCE);
        long count = 0;
        while (System.nanoTime() < end) {
            lock.lock();
            try {
                String before = counter.get();
                counter.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
                count++;
            } finally {
                lock.unlock();
            }
        }
        return count;
    }

    private static long pairs(RLock lock, int number) {
        long[] times = new long[number];
        for (int pair = 0; pair < number; pair++) {
            long start = System.nanoTime();
            lock.lock();
            lock.unlock();
            times[pair] = System.nanoTime() - start;
        }
        Arrays.sort(times);
        return times[number / 2];
    }
}
