package peers;

import java.util.Map;
import java.util.TreeMap;

/** What one thread did, or all of them. */
final class Report {
    long holds;
    long inside;
    private long longest;
    private final Map<Integer, Long> waits = new TreeMap<>();

    void waited(long nanos) {
        // 32 buckets for each doubling.
        int bucket = (int) (Math.log(Math.max(nanos, 1)) / Math.log(2) * 32);
        waits.merge(bucket, 1L, Long::sum);
        longest = Math.max(longest, nanos);
    }

    void add(Report other) {
        holds += other.holds;
        inside += other.inside;
        longest = Math.max(longest, other.longest);
        other.waits.forEach((bucket, count) -> waits.merge(bucket, count, Long::sum));
    }

    /** HOLDS INSIDE GAVE_UP LONGEST BUCKET:COUNT... No call gives up. */
    String words() {
        return holds + " " + inside + " 0 " + longest + waits();
    }

    long longest() {
        return longest;
    }

    /** A word for each bucket, with a space before it. */
    String waits() {
        StringBuilder words = new StringBuilder();
        waits.forEach((bucket, count) -> words.append(" " + bucket + ":" + count));
        return words.toString();
    }
}
