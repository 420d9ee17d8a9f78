import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Answers one line per line: `rules\trules in base64\tsubject in base64`, or `subject\tcertificate in hex`. */
public final class SecuritySays {
    public static void main(String[] arguments) throws Exception {
        var reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var factory = CertificateFactory.getInstance("X.509");
        for (String line; (line = reader.readLine()) != null; ) {
            String[] asked = line.split("\t", -1);
            String answer;
            try {
                if (asked[0].equals("rules")) {
                    answer = "=" + SslPrincipalMapper.fromRules(text(asked[1])).getName(text(asked[2]));
                } else {
                    byte[] der = HexFormat.of().parseHex(asked[1]);
                    var certificate = (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
                    answer = "=" + certificate.getSubjectX500Principal().getName();
                }
            } catch (Exception refusal) {
                answer = "!" + refusal.getClass().getSimpleName();
            }
            System.out.println(Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
    }
}
