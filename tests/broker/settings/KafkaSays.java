import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.DynamicBrokerConfig;

/**
 * What Kafka and Java say, one line each, for the tests in test_against_kafka.py.
 *
 * keys: name, type, default, update mode, internal or not; separated by tabs.
 * properties: for each line on stdin (base64 of a file's text) the base64 keys and values that Java reads.
 */
class KafkaSays {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("keys")) keys();
        else properties();
    }

    static void keys() {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : kafka.server.KafkaConfig.configDef().configKeys().values()) {
            boolean hasNone = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE || key.defaultValue == null;
            String text = hasNone ? "-" : ConfigDef.convertToString(key.defaultValue, key.type);
            String mode = modes.getOrDefault(key.name, "read-only");
            System.out.println(String.join("\t", key.name, key.type.toString(), text, mode, "" + key.internalConfig));
        }
    }

    static void properties() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Properties read = new Properties();
            try {
                read.load(new StringReader(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
            } catch (IllegalArgumentException malformed) {
                System.out.println("malformed");
                continue;
            }
            StringBuilder all = new StringBuilder("read");
            for (Map.Entry<Object, Object> entry : new TreeMap<>(read).entrySet())
                all.append(' ').append(encoded(entry.getKey())).append('=').append(encoded(entry.getValue()));
            System.out.println(all);
        }
    }

    static String encoded(Object text) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(text.toString().getBytes(StandardCharsets.UTF_8));
    }
}
