package interop;

import java.util.Map;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The commands of read-write locks, apart from those of every kind. */
final class ReadWrite {
    private ReadWrite() {}

    static void add(Map<String, Command> commands, RedissonClient redisson) {
        // NAME KEY THREADS MILLISECONDS: the number of writes, each of two values that are equal
        // for all readers. Every fourth hold writes.
        commands.put("readwrite", words -> {
            long end = Threads.after(words[3]);
            return Threads.sum(words[2], () -> readAndWrite(redisson, words, end));
        });
    }

    private static long readAndWrite(RedissonClient redisson, String[] words, long end) {
        RReadWriteLock locks = redisson.getReadWriteLock(words[0]);
        RBucket<String> first = redisson.getBucket(words[1] + ":first", StringCodec.INSTANCE);
        RBucket<String> second = redisson.getBucket(words[1] + ":second", StringCodec.INSTANCE);
        long writes = 0;
        for (long hold = 1; System.nanoTime() < end; hold++) {
            boolean writing = hold % 4 == 0;
            RLock lock = writing ? locks.writeLock() : locks.readLock();
            lock.lock();
            try {
                long one = number(first);
                long other = number(second);
                if (one != other) {
                    throw new IllegalStateException("read " + one + " and " + other);
                }
                if (writing) {
                    first.set(String.valueOf(one + 1));
                    second.set(String.valueOf(one + 1));
                    writes++;
                }
            } finally {
                lock.unlock();
            }
        }
        return writes;
    }

    private static long number(RBucket<String> bucket) {
        String value = bucket.get();
        return value == null ? 0 : Long.parseLong(value);
    }
}
