package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;
import java.util.function.Function;
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
    }
}
