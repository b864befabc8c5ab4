import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** Runs HDFS with one data node in a directory; prints the port of WebHDFS; ends when its standard input does. */
public class MiniHdfs {
    public static void main(String[] words) throws Exception {
        Configuration settings = new Configuration();
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(words[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println(cluster.getNameNode().getHttpAddress().getPort());
        System.out.flush();
        while (System.in.read() >= 0) {
            // nothing is said to it
        }
        System.exit(0); // the directory is removed by who made it
    }
}
