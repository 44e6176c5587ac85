package peers;

import java.util.List;
import org.redisson.api.RLock;

/** The work of threads with a name each, in one window. */
final class Apart {
    final String prefix;
    final int workers;
    private final long start;
    private final long end;

    /** Words: the command, PREFIX WORKERS START END. */
    Apart(String[] words) {
        prefix = words[1];
        workers = Integer.parseInt(words[2]);
        start = Long.parseLong(words[3]);
        end = Long.parseLong(words[4]);
    }

    /** Locks and unlocks until the window ends. The first pair opens connections. */
    Report work(RLock lock) throws InterruptedException {
        Report report = new Report();
        lock.lock();
        lock.unlock();
        report.holds++;
        Load.sleep(start - System.nanoTime());
        while (System.nanoTime() < end) {
            long called = System.nanoTime();
            lock.lock();
            lock.unlock();
            report.waited(System.nanoTime() - called);
            report.holds++;
            if (System.nanoTime() < end) {
                report.inside++;
            }
        }
        return report;
    }

    /** PAIRS INSIDE GAVE_UP LONGEST SLOWEST FASTEST BUCKET:COUNT... No call gives up. */
    static String words(List<Report> reports) {
        Report all = new Report();
        long slowest = Long.MAX_VALUE;
        long fastest = 0;
        for (Report report : reports) {
            slowest = Math.min(slowest, report.inside);
            fastest = Math.max(fastest, report.inside);
            all.add(report);
        }
        String numbers = all.holds + " " + all.inside + " 0 " + all.longest();
        return numbers + " " + slowest + " " + fastest + all.waits();
    }
}
