package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.Map;
import java.util.function.Function;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** The commands of semaphores whose permits have a lease. The first word is the name. */
final class LeasedSemaphores {
    private LeasedSemaphores() {}

    static void add(Map<String, Command> commands, RedissonClient redisson) {
        Function<String[], RPermitExpirableSemaphore> semaphore =
                words -> redisson.getPermitExpirableSemaphore(words[0]);
        commands.put("leased-set", words ->
                semaphore.apply(words).trySetPermits(Integer.parseInt(words[1])));
        commands.put("leased-add", words -> {
            semaphore.apply(words).addPermits(Integer.parseInt(words[1]));
            return "ok";
        });
        // LEASE, in milliseconds: the id of the permit.
        commands.put("leased-acquire", words ->
                semaphore.apply(words).acquire(Long.parseLong(words[1]), MILLISECONDS));
        // WAIT LEASE, in milliseconds: the id of the permit, or null.
        commands.put("leased-try", words -> semaphore.apply(words)
                .tryAcquire(Long.parseLong(words[1]), Long.parseLong(words[2]), MILLISECONDS));
        commands.put("leased-release", words -> semaphore.apply(words).tryRelease(words[1]));
        // ID LEASE, in milliseconds.
        commands.put("leased-extend", words -> semaphore.apply(words)
                .updateLeaseTime(words[1], Long.parseLong(words[2]), MILLISECONDS));
        commands.put("leased-available", words -> semaphore.apply(words).availablePermits());
        commands.put("leased-acquired", words -> semaphore.apply(words).acquiredPermits());
        // GAUGE LIMIT THREADS MILLISECONDS: the number of permits that were acquired. The gauge
        // counts the threads that have one, which is an error above the limit.
        commands.put("leased-contend", words -> {
            RAtomicLong gauge = redisson.getAtomicLong(words[1]);
            long end = Threads.after(words[4]);
            return Threads.sum(words[3], () -> {
                long count = 0;
                for (; System.nanoTime() < end; count++) {
                    String permit = semaphore.apply(words).acquire(10, SECONDS);
                    long threads = gauge.incrementAndGet();
                    gauge.decrementAndGet();
                    semaphore.apply(words).release(permit);
                    if (threads > Long.parseLong(words[2])) {
                        throw new IllegalStateException(threads + " permits");
                    }
                }
                return count;
            });
        });
        // N: the median time of acquire and release, in nanoseconds.
        commands.put("leased-pairs", words -> Threads.median(words[1], () -> {
            semaphore.apply(words).release(semaphore.apply(words).acquire(10, SECONDS));
            return null;
        }));
    }
}
