import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Answers what bytes Kafka's own generated message classes write, and what they read.
 *
 * A question is one line of four fields separated by tabs: operation, message, version, payload.
 *   encode   JSON -> hex
 *   decode   hex -> JSON
 *   echo     hex -> hex: read, then written again, unknown tagged fields included
 *   default  path of field names ("" or "topics.partitions") -> JSON of the struct there when nobody touched it
 * Questions come in batches that end with an empty line, and are answered together, a line each and in order, "ok" or
 * "error", a tab, the payload: nothing is written while there is more to read, so neither side can block the other.
 */
public final class MessageOracle {
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.coordinator.share.generated");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, Generated> KNOWN = new HashMap<>();

    /** The class generated for a message or a struct in it, and the static methods of its JSON converter. */
    private record Generated(Class<?> message, Method fromJson, Method toJson) {
        static Generated find(String name) throws ReflectiveOperationException {
            for (String location : PACKAGES) {
                for (String suffix : List.of("Data", "")) {     // requests, responses and headers; everything stored
                    try {
                        return of(Class.forName(location + "." + name + suffix));
                    } catch (ClassNotFoundException next) {
                        continue;
                    }
                }
            }
            throw new IllegalArgumentException("no message class " + name + " on the class path");
        }

        private static Generated of(Class<?> message) throws ReflectiveOperationException {
            Class<?> converter = Class.forName(message.getName().replace("$", "JsonConverter$") + "JsonConverter");
            return new Generated(message,
                converter.getMethod("read", JsonNode.class, short.class),
                converter.getMethod("write", message, short.class, boolean.class));
        }

        Generated at(String path) throws ReflectiveOperationException {
            Class<?> struct = message;
            for (String field : path.isEmpty() ? new String[0] : path.split("\\.")) {
                struct = structIn(struct.getDeclaredField(field).getGenericType());
            }
            return of(struct);
        }

        private static Class<?> structIn(Type field) {
            if (field instanceof ParameterizedType) {
                return (Class<?>) ((ParameterizedType) field).getActualTypeArguments()[0];
            }
            Class<?> found = (Class<?>) field;          // the struct itself, or a collection made for it alone
            return Message.class.isAssignableFrom(found) ? found : structIn(found.getGenericSuperclass());
        }

        /** Of records the JSON has the size, or if asked for them nothing at all; untouched ones do not even have a size. */
        String json(Message instance, short version, boolean serializeRecords) throws ReflectiveOperationException {
            return toJson.invoke(null, instance, version, serializeRecords).toString();
        }

        Message untouched() throws ReflectiveOperationException {
            return (Message) message.getConstructor().newInstance();
        }
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8), 1 << 20);
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, UTF_8), 1 << 20);
        List<String> batch = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isEmpty()) {
                batch.add(line);
                continue;
            }
            for (String question : batch) {
                out.write(answer(question.split("\t", -1)));
                out.write('\n');
            }
            out.flush();
            batch.clear();
        }
    }

    private static String answer(String[] question) {
        try {
            Generated generated = KNOWN.get(question[1]);
            if (generated == null) {
                generated = Generated.find(question[1]);
                KNOWN.put(question[1], generated);
            }
            return "ok\t" + answer(question[0], generated, Short.parseShort(question[2]), question[3]);
        } catch (InvocationTargetException inside) {
            return "error\t" + oneLine(inside.getCause());
        } catch (ReflectiveOperationException | IOException | RuntimeException failure) {
            return "error\t" + oneLine(failure);
        }
    }

    private static String answer(String operation, Generated generated, short version, String payload)
            throws ReflectiveOperationException, IOException {
        switch (operation) {
            case "encode":
                return write((Message) generated.fromJson.invoke(null, JSON.readTree(payload), version), version);
            case "decode":
                return generated.json(read(generated, version, payload), version, false);
            case "echo":
                return write(read(generated, version, payload), version);
            case "default":
                Generated struct = generated.at(payload);
                return struct.json(struct.untouched(), version, true);
            default:
                throw new IllegalArgumentException("no operation " + operation);
        }
    }

    private static Message read(Generated generated, short version, String hex) throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(HEX.parseHex(hex));
        Message message = generated.untouched();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes are left behind the message");
        }
        return message;
    }

    private static String write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HEX.formatHex(buffer.array(), 0, buffer.position());
    }

    private static String oneLine(Throwable failure) {
        return failure.toString().replaceAll("\\s+", " ");
    }
}
