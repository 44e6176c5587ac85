package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
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
        commands.put("contend", words -> {
            long end = Threads.after(words[4]);
            return Threads.sum(words[3], () -> increment(redisson, words, end));
        });
        // THREADS MILLISECONDS HELD: threads acquire the lock again and again, and have it for HELD
        // milliseconds. The result is how often, and the longest wait in microseconds. With the
        // kind mixed-N, N of 100 holds only read.
        commands.put("waits", words -> {
            long end = Threads.after(words[3]);
            AtomicLong longest = new AtomicLong();
            long count = Threads.sum(words[2], () -> acquireAgain(redisson, words, end, longest));
            return count + " " + longest.get() / 1000;
        });
        // N: the median time of a lock and unlock, in nanoseconds.
        commands.put("pairs", words -> {
            RLock lock = lock(redisson, words);
            return Threads.median(words[2], () -> {
                lock.lock();
                lock.unlock();
                return null;
            });
        });
    }

    private static RLock lock(RedissonClient redisson, String[] words) {
        String name = words[1];
        return switch (words[0]) {
            case "plain" -> redisson.getLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "mixed-50" -> readOrWrite(redisson.getReadWriteLock(name), 50);
            case "mixed-90" -> readOrWrite(redisson.getReadWriteLock(name), 90);
            // NAME,NAME: acquired in this order.
            case "multi" -> redisson.getMultiLock(
                    Arrays.stream(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            default -> throw new IllegalArgumentException("no such kind: " + words[0]);
        };
    }

    /** The lock for one hold, of which this percentage only reads. */
    private static RLock readOrWrite(RReadWriteLock locks, int reads) {
        boolean isRead = ThreadLocalRandom.current().nextInt(100) < reads;
        return isRead ? locks.readLock() : locks.writeLock();
    }

    /** Returns how often this thread had the lock. */
    private static long acquireAgain(
            RedissonClient redisson, String[] words, long end, AtomicLong longest)
            throws InterruptedException {
        long held = Long.parseLong(words[4]);
        long count = 0;
        while (System.nanoTime() < end) {
            RLock lock = lock(redisson, words);
            long start = System.nanoTime();
            lock.lock();
            longest.accumulateAndGet(System.nanoTime() - start, Math::max);
            try {
                if (held > 0) {
                    Thread.sleep(held);
                }
                count++;
            } finally {
                lock.unlock();
            }
        }
        return count;
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
}
