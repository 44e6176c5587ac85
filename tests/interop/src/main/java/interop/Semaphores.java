package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;
import java.util.function.Function;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The commands of semaphores. The first word is the name. */
final class Semaphores {
    private Semaphores() {}

    static void add(Map<String, Command> commands, RedissonClient redisson) {
        Function<String[], RSemaphore> semaphore = words -> redisson.getSemaphore(words[0]);
        commands.put("semaphore-set", words ->
                semaphore.apply(words).trySetPermits(Integer.parseInt(words[1])));
        commands.put("semaphore-add", words -> {
            semaphore.apply(words).addPermits(Integer.parseInt(words[1]));
            return "ok";
        });
        commands.put("semaphore-acquire", words -> {
            semaphore.apply(words).acquire(Integer.parseInt(words[1]));
            return "ok";
        });
        // N WAIT, in milliseconds.
        commands.put("semaphore-try", words -> semaphore.apply(words)
                .tryAcquire(Integer.parseInt(words[1]), Long.parseLong(words[2]), MILLISECONDS));
        commands.put("semaphore-release", words -> {
            semaphore.apply(words).release(Integer.parseInt(words[1]));
            return "ok";
        });
        commands.put("semaphore-available", words -> semaphore.apply(words).availablePermits());
        commands.put("semaphore-drain", words -> semaphore.apply(words).drainPermits());
        // GAUGE LIMIT THREADS MILLISECONDS: the number of permits that were acquired. The gauge
        // counts the threads that have one, which is an error above the limit.
        commands.put("semaphore-contend", words -> {
            RAtomicLong gauge = redisson.getAtomicLong(words[1]);
            long end = Threads.after(words[4]);
            return Threads.sum(words[3], () -> {
                long count = 0;
                for (; System.nanoTime() < end; count++) {
                    semaphore.apply(words).acquire();
                    long threads = gauge.incrementAndGet();
                    gauge.decrementAndGet();
                    semaphore.apply(words).release();
                    if (threads > Long.parseLong(words[2])) {
                        throw new IllegalStateException(threads + " permits");
                    }
                }
                return count;
            });
        });
        // N: the median time of acquire and release, in nanoseconds.
        commands.put("semaphore-pairs", words -> Threads.median(words[1], () -> {
            semaphore.apply(words).acquire();
            semaphore.apply(words).release();
            return null;
        }));
    }
}
