package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** What several commands have in common. */
final class Threads {
    private Threads() {}

    /** The moment that is so many milliseconds later, for System.nanoTime. */
    static long after(String milliseconds) {
        return System.nanoTime() + Long.parseLong(milliseconds) * 1_000_000;
    }

    /** Runs the work on several threads, and returns the sum of their results. */
    static long sum(String threads, Callable<Long> work) throws Exception {
        int number = Integer.parseInt(threads);
        ExecutorService pool = Executors.newFixedThreadPool(number);
        try {
            List<Future<Long>> results = new ArrayList<>();
            for (int thread = 0; thread < number; thread++) {
                results.add(pool.submit(work));
            }
            long sum = 0;
            for (Future<Long> result : results) {
                sum += result.get();
            }
            return sum;
        } finally {
            pool.shutdown();
        }
    }

    /** Repeats the work, and returns its median time in nanoseconds. */
    static long median(String times, Callable<?> work) throws Exception {
        long[] took = new long[Integer.parseInt(times)];
        for (int time = 0; time < took.length; time++) {
            long start = System.nanoTime();
            work.call();
            took[time] = System.nanoTime() - start;
        }
        Arrays.sort(took);
        return took[took.length / 2];
    }
}
