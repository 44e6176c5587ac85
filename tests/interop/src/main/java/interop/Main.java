package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Reads commands and writes a reply for each: one client of Redisson, and as many threads as the
 * commands name.
 *
 * <p>A command is {@code THREAD NAME WORD...}, its reply {@code THREAD MICROSECONDS RESULT}. Each
 * thread runs its commands in their order. The Rust program in {@code tests/interop/worker} has the
 * same commands.
 */
final class Main {
    /** A thread that waits for a message, and not for a reply, is in one of these classes. */
    private static final Set<String> WAITS =
            Set.of("java.util.concurrent.Semaphore", "org.redisson.misc.ReclosableLatch");

    private static final Map<String, Command> COMMANDS = new HashMap<>();

    /** Arguments: the URL of Redis, and the lease that the watchdog renews, in milliseconds. */
    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setLockWatchdogTimeout(Long.parseLong(arguments[1]));
        config.useSingleServer().setAddress(arguments[0]);
        RedissonClient redisson = Redisson.create(config);
        Locks.add(COMMANDS, redisson);
        Fenced.add(COMMANDS, redisson);
        ReadWrite.add(COMMANDS, redisson);
        Semaphores.add(COMMANDS, redisson);
        LeasedSemaphores.add(COMMANDS, redisson);
        Latches.add(COMMANDS, redisson);
        // THREAD: whether it sleeps until a message arrives.
        COMMANDS.put("parked", words -> isParked(words[0]));

        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            threads.computeIfAbsent(words[0], Main::start).execute(() -> reply(words));
        }
        // The parent has ended. The locks end with their leases.
        Runtime.getRuntime().halt(0);
    }

    private static ExecutorService start(String number) {
        return Executors.newSingleThreadExecutor(work -> new Thread(work, "actor " + number));
    }

    private static boolean isParked(String number) {
        return Thread.getAllStackTraces().entrySet().stream()
                .filter(thread -> thread.getKey().getName().equals("actor " + number))
                .filter(thread -> thread.getValue()[0].getMethodName().equals("park"))
                .flatMap(thread -> Arrays.stream(thread.getValue()))
                .anyMatch(frame -> WAITS.contains(frame.getClassName()));
    }

    private static void reply(String[] words) {
        long start = System.nanoTime();
        String result = run(words[1], Arrays.copyOfRange(words, 2, words.length));
        long micros = (System.nanoTime() - start) / 1000;
        String reply = words[0] + " " + micros + " " + result;
        synchronized (System.out) {
            System.out.println(reply.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static String run(String name, String[] words) {
        Command command = COMMANDS.get(name);
        if (command == null) {
            return "error UnknownCommand " + name;
        }
        try {
            return String.valueOf(command.run(words));
        } catch (Exception error) {
            return "error " + error.getClass().getSimpleName() + " " + error.getMessage();
        }
    }
}
