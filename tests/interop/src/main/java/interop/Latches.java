package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;
import java.util.function.Function;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** The commands of count-down latches. The first word is the name. */
final class Latches {
    private Latches() {}

    static void add(Map<String, Command> commands, RedissonClient redisson) {
        Function<String[], RCountDownLatch> latch = words -> redisson.getCountDownLatch(words[0]);
        commands.put("latch-set", words ->
                latch.apply(words).trySetCount(Long.parseLong(words[1])));
        commands.put("latch-down", words -> {
            latch.apply(words).countDown();
            return "ok";
        });
        commands.put("latch-count", words -> latch.apply(words).getCount());
        commands.put("latch-wait", words -> {
            latch.apply(words).await();
            return "ok";
        });
        // N: the median time of setting a count of 1 and counting down, in nanoseconds.
        commands.put("latch-pairs", words -> Threads.median(words[1], () -> {
            latch.apply(words).trySetCount(1);
            latch.apply(words).countDown();
            return null;
        }));
        // WAIT, in milliseconds.
        commands.put("latch-try", words ->
                latch.apply(words).await(Long.parseLong(words[1]), MILLISECONDS));
    }
}
