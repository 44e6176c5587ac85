package peers;

import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import org.redisson.api.RLock;

/** The work of all threads of this process in one window. */
final class Load {
    final String name;
    final int threads;
    private final String counter;
    private final long hold;
    private final long pause;
    private final long start;
    private final long end;

    /** Words: the command, NAME COUNTER THREADS HOLD PAUSE START END. Hold and pause: microseconds. */
    Load(String[] words) {
        name = words[1];
        counter = words[2];
        threads = Integer.parseInt(words[3]);
        hold = Long.parseLong(words[4]) * 1_000;
        pause = Long.parseLong(words[5]) * 1_000;
        start = Long.parseLong(words[6]);
        end = Long.parseLong(words[7]);
    }

    static void sleep(long nanos) throws InterruptedException {
        if (nanos > 0) {
            Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
        }
    }

    Report work(RLock lock) throws Exception {
        Report report = new Report();
        try (RandomAccessFile file = new RandomAccessFile(counter, "rw")) {
            sleep(start - System.nanoTime());
            while (System.nanoTime() < end) {
                long called = System.nanoTime();
                lock.lock();
                report.waited(System.nanoTime() - called);
                section(file.getChannel());
                report.holds++;
                if (System.nanoTime() < end) {
                    report.inside++;
                }
                lock.unlock();
                sleep(pause);
            }
        }
        return report;
    }

    /** Adds 1 to the counter in two steps, so that two holders of a lock lose an addition. */
    private void section(FileChannel file) throws Exception {
        ByteBuffer bytes = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
        file.read(bytes, 0);
        sleep(hold);
        bytes.putLong(0, bytes.getLong(0) + 1).rewind();
        file.write(bytes, 0);
    }
}
