package interop;

import java.util.Map;
import org.redisson.api.RFencedLock;
import org.redisson.api.RList;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The commands of fenced locks, apart from those of every kind. */
final class Fenced {
    private Fenced() {}

    static void add(Map<String, Command> commands, RedissonClient redisson) {
        // NAME LIST N: holds the lock N times, and adds each token to the list while it does.
        commands.put("tokens", words -> {
            RFencedLock lock = redisson.getFencedLock(words[0]);
            RList<String> list = redisson.getList(words[1], StringCodec.INSTANCE);
            for (int hold = 0; hold < Integer.parseInt(words[2]); hold++) {
                long token = lock.lockAndGetToken();
                try {
                    list.add("java:" + token);
                } finally {
                    lock.unlock();
                }
            }
            return "ok";
        });
    }
}
