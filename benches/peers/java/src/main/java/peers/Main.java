package peers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Locks and unlocks with Redisson, as its parent asks.
 *
 * <p>The argument is the URL of Redis. {@code benches/peers/README.md} describes the commands.
 * System.nanoTime is the clock that all processes of the machine share.
 */
final class Main {
    private final String url;
    private final RedissonClient redisson;
    /** Only {@code contend} uses more than the first. */
    private final List<RedissonClient> clients = new ArrayList<>();
    private RLock taken;

    private Main(String url) {
        this.url = url;
        redisson = connect();
        clients.add(redisson);
    }

    private RedissonClient connect() {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        return Redisson.create(config);
    }

    public static void main(String[] arguments) throws Exception {
        Main driver = new Main(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        // The parent closes the input when it ends.
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String reply;
            try {
                reply = "ok " + driver.run(line.split(" "));
            } catch (Exception error) {
                reply = "error " + error;
            }
            System.out.println(reply.strip().replace('\n', ' '));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "pairs":
                return pairs(words[1], Integer.parseInt(words[2]));
            case "clients":
                int count = Math.max(Integer.parseInt(words[1]), 1);
                while (clients.size() < count) {
                    clients.add(connect());
                }
                while (clients.size() > count) {
                    clients.remove(clients.size() - 1).shutdown();
                }
                return "";
            case "contend":
                return contend(new Load(words));
            case "apart":
                return apart(new Apart(words));
            case "take":
                taken = redisson.getLock(words[1]);
                taken.lock();
                return "";
            case "give":
                Load.sleep(Long.parseLong(words[1]) * 1_000);
                long unlocking = System.nanoTime();
                taken.unlock();
                return String.valueOf(unlocking);
            case "enter":
                RLock lock = redisson.getLock(words[1]);
                long called = System.nanoTime();
                lock.lock();
                long granted = System.nanoTime();
                lock.unlock();
                return called + " " + granted;
            case "hold":
                for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                    redisson.getLock(words[1] + ":" + number).lock();
                }
                return "";
            default:
                throw new IllegalArgumentException("not a command: " + words[0]);
        }
    }

    private String pairs(String name, int pairs) {
        RLock lock = redisson.getLock(name);
        List<String> times = new ArrayList<>();
        for (int pair = 0; pair < pairs; pair++) {
            long start = System.nanoTime();
            lock.lock();
            lock.unlock();
            times.add(String.valueOf(System.nanoTime() - start));
        }
        return times.stream().collect(Collectors.joining(" "));
    }

    private String apart(Apart load) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(load.workers);
        try {
            List<Future<Report>> futures = new ArrayList<>();
            for (int worker = 0; worker < load.workers; worker++) {
                RLock lock = redisson.getLock(load.prefix + ":" + worker);
                futures.add(pool.submit(() -> load.work(lock)));
            }
            List<Report> reports = new ArrayList<>();
            for (Future<Report> future : futures) {
                reports.add(future.get());
            }
            return Apart.words(reports);
        } finally {
            pool.shutdown();
        }
    }

    private String contend(Load load) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(load.threads);
        try {
            List<Future<Report>> reports = new ArrayList<>();
            for (int thread = 0; thread < load.threads; thread++) {
                RLock lock = clients.get(thread % clients.size()).getLock(load.name);
                reports.add(pool.submit(() -> load.work(lock)));
            }
            Report all = new Report();
            for (Future<Report> report : reports) {
                all.add(report.get());
            }
            return all.words();
        } finally {
            pool.shutdown();
        }
    }
}
