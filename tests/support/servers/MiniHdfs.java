import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.server.namenode.EditLogFileOutputStream;

/** Runs HDFS with one data node in a directory; prints the port of WebHDFS; ends when its standard input does. */
public class MiniHdfs {
    public static void main(String[] words) throws Exception {
        EditLogFileOutputStream.setShouldSkipFsyncForTesting(true); // what it keeps goes with it
        Configuration settings = new Configuration();
        // Who closes a file before the name node heard of its last block asks again after so long, 400 ms by itself.
        settings.setInt("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", 10);
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
