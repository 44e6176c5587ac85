package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
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

        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            threads.computeIfAbsent(words[0], thread -> Executors.newSingleThreadExecutor())
                    .execute(() -> reply(words));
        }
        // The parent has ended. The locks end with their leases.
        Runtime.getRuntime().halt(0);
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
