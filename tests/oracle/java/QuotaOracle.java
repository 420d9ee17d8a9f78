import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/** A line is `rate SAMPLES BOUND` or `bucket SAMPLES BOUND`, then pairs of TIME_MS VALUE. For each pair the answer has
 * how long Kafka makes a client wait after it, in ms. Windows are one second. */
public class QuotaOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            double bound = Double.parseDouble(words[2]);
            MetricConfig config = new MetricConfig()
                .samples(Integer.parseInt(words[1])).timeWindow(1, TimeUnit.SECONDS).quota(new Quota(bound, true));
            Rate rate = new Rate();
            TokenBucket bucket = new TokenBucket();
            StringBuilder answer = new StringBuilder();
            for (int at = 3; at < words.length; at += 2) {
                long timeMs = Long.parseLong(words[at]);
                double value = Double.parseDouble(words[at + 1]);
                long waitMs = 0;
                if (words[0].equals("rate")) {
                    rate.record(config, value, timeMs);
                    double measured = rate.measure(config, timeMs);
                    if (measured > bound)
                        waitMs = Math.round((measured - bound) / bound * rate.windowSize(config, timeMs));
                } else {
                    double tokens = bucket.measure(config, timeMs);
                    if (tokens < 0)
                        waitMs = Math.round(-tokens / bound * 1000);
                    else
                        bucket.record(config, value, timeMs);
                }
                answer.append(waitMs).append(' ');
            }
            System.out.println(answer.toString().trim());
        }
    }
}
