package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;
import java.util.function.Function;
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
    }
}
