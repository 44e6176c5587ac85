package interop;

/** Adds up the times by which short sleeps of this process are much too long, in nanoseconds. */
final class Stalls extends Thread {
    private static final long TICK = 1_000_000;

    private volatile boolean isOver;
    private long sum;

    @Override
    public void run() {
        while (!isOver) {
            long start = System.nanoTime();
            try {
                Thread.sleep(1);
            } catch (InterruptedException error) {
                return;
            }
            long late = System.nanoTime() - start - TICK;
            if (late > 10 * TICK) {
                sum += late;
            }
        }
    }

    /** Ends the thread, and returns the sum. */
    long end() throws InterruptedException {
        isOver = true;
        join();
        return sum;
    }
}
